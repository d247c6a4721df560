/* Puts the page's files into the program (base/embed.inc). The scripts are one, in this order. */
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
#define PATH "src/report/elements.js", "src/report/charts.js", "src/report/decoder.js", "src/report/matrix.js", \
    "src/report/attention.js", "src/report/panel.js", "src/report/guide.js", "src/report/text.js", "src/report/theory.js", "src/report/page.js"
#include "base/embed.inc"
