/* Puts the page's files into the program (base/embed.inc). The scripts are one, in this order. */
#define NAME report_html
#define PATH "lab/report/page.html"
#include "base/embed.inc"
#undef NAME
#undef PATH
#define NAME report_css
#define PATH "lab/report/page.css"
#include "base/embed.inc"
#undef NAME
#undef PATH
#define NAME report_js
#define PATH "lab/report/elements.js", "lab/report/charts.js", "lab/report/decoder.js", "lab/report/matrix.js", \
    "lab/report/attention.js", "lab/report/panel.js", "lab/report/guide.js", "lab/report/text.js", "lab/report/page.js"
#include "base/embed.inc"
