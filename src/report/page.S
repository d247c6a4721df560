/* Puts the page's three files into the program (base/embed.inc). */
#define NAME report_html
#define PATH "src/report/page.html"
#include "base/embed.inc"
#undef NAME
#undef PATH
#define NAME report_css
#define PATH "src/report/page.css"
#include "base/embed.inc"
#undef NAME
#undef PATH
#define NAME report_js
#define PATH "src/report/page.js"
#include "base/embed.inc"
