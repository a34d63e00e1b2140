// Pieces of SVG pictures that can be read on light and on dark paper.
#pragma once

#include <string>
#include <string_view>

namespace cria::tools::svg {

std::string escaped(std::string_view text);
/// A length in pixels, to a tenth.
std::string number(double value);
std::string line(double x1, double y1, double x2, double y2, const std::string& style);
std::string text(double x, double y, const std::string& words, const std::string& style = {});
/// The picture: `body` on paper of its own. Attributes are the colours on light paper; where the
/// viewer prefers a dark one, these classes have others: grid (lines behind), faint (lines to
/// labels), first and second (what is drawn), accent.
std::string picture(double width, double height, const std::string& body);

}  // namespace cria::tools::svg
