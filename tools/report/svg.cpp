#include "tools/report/svg.h"

#include "tools/terminal/terminal.h"

namespace cria::tools::svg {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

std::string number(double value) { return fixed(value, 1); }

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
         "\" y2=\"" + number(y2) + "\" " + style + "/>\n";
}

std::string text(double x, double y, const std::string& words, const std::string& style) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + style + ">" + escaped(words) +
         "</text>\n";
}

std::string picture(double width, double height, const std::string& body) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " +
         number(height) +
         "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
         "<style>@media (prefers-color-scheme: dark) {\n"
         "  svg { fill: #d0d7de } .paper { fill: #0d1117 } .grid { stroke: #30363d } .faint { "
         "stroke: "
         "#6e7681 }\n"
         "  .first { fill: #58a6ff } .second { fill: #6e7681 } .accent { fill: #ff7b72 } "
         ".accent-line { "
         "stroke: #ff7b72 }\n"
         "}</style>\n"
         "<rect class=\"paper\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n" +
         body + "</svg>\n";
}

}  // namespace cria::tools::svg
