# Puts the chat page together: cmake -DOUT=DIR -P assemble.cmake writes DIR/page.html and DIR/page.cpp.
# The modules become one script, in this order; `import` and `export` are for tests that load them one by one, so top-level names are
# unique across them.
set(modules storage theme dom inline markdown highlight render stream store settings ask message talk sidebar composer main)
set(here ${CMAKE_CURRENT_LIST_DIR})

set(script "'use strict';\n(() => {\n")
foreach(module IN LISTS modules)
  file(READ ${here}/${module}.mjs text)
  string(REGEX REPLACE "(^|\n)import [^\n]*" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)export " "\\1" text "${text}")
  string(APPEND script "${text}")
endforeach()
string(APPEND script "})();\n")
file(READ ${here}/style.css style)
if(script MATCHES "</script" OR style MATCHES "</style")
  message(FATAL_ERROR "a part of the chat page would end its own element")
endif()

file(READ ${here}/index.html page)
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE ${OUT}/page.html "${page}")

# The hash of a text as Content-Security-Policy names it: base64 of SHA-256. Three hexadecimal digits are two of base64.
function(csp_hash out text)
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(SHA256 hex "${text}")
  string(APPEND hex "00")
  set(base64 "")
  foreach(at RANGE 0 63 3)
    string(SUBSTRING "${hex}" ${at} 3 three)
    math(EXPR high "0x${three} >> 6")
    math(EXPR low "0x${three} & 63")
    string(SUBSTRING "${digits}" ${high} 1 first)
    string(SUBSTRING "${digits}" ${low} 1 second)
    string(APPEND base64 "${first}${second}")
  endforeach()
  string(SUBSTRING "${base64}" 0 43 base64)  # 256 bits; the rest is padding
  set(${out} "'sha256-${base64}='" PARENT_SCOPE)
endfunction()
csp_hash(script_hash "${script}")
csp_hash(style_hash "${style}")
string(CONCAT policy "default-src 'none'; script-src ${script_hash}; style-src ${style_hash}; connect-src 'self'; img-src 'self' data:; "
                     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")

file(READ ${OUT}/page.html bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT}/page.cpp
"// Made by tools/serve/page/assemble.cmake.
#include \"tools/serve/page/page.h\"

namespace cria::tools {
namespace {
const unsigned char page_bytes[] = {
${bytes}};
}  // namespace

std::string_view chat_page() { return {reinterpret_cast<const char*>(page_bytes), sizeof page_bytes}; }

std::string_view chat_page_policy() {
  return \"${policy}\";
}

}  // namespace cria::tools
")
