# Assembles the chat page: cmake -DOUT=DIR -P assemble.cmake writes DIR/page.html and DIR/page.cpp,
# which has the page and the files that make it installable. The modules become one script, in this
# order, so their top-level names must be unique. `import` and `export` are for tests, which load
# the modules one by one.
set(modules storage theme dom inline markdown math highlight render stream versions store settings ask message talk sidebar composer main)
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

# Hashes text as Content-Security-Policy expects: base64 of SHA-256. Three hexadecimal digits make
# two of base64.
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
string(CONCAT policy "default-src 'none'; script-src ${script_hash}; style-src ${style_hash}; connect-src 'self'; img-src 'self' data:; manifest-src 'self'; "
                     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")

# cpp_bytes(OUT FILE) gives the file's bytes as the elements of an array.
function(cpp_bytes out file)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
  set(${out} "${bytes}" PARENT_SCOPE)
endfunction()
cpp_bytes(page_bytes ${OUT}/page.html)
cpp_bytes(manifest_bytes ${here}/manifest.webmanifest)
cpp_bytes(icon_bytes ${here}/icon.svg)
file(WRITE ${OUT}/page.cpp
"// Made by tools/serve/page/assemble.cmake.
#include \"tools/serve/page/page.h\"

namespace cria::tools {
namespace {
const unsigned char page_bytes[] = {
${page_bytes}};
const unsigned char manifest_bytes[] = {
${manifest_bytes}};
const unsigned char icon_bytes[] = {
${icon_bytes}};

template <std::size_t n>
std::string_view text(const unsigned char (&bytes)[n]) {
  return {reinterpret_cast<const char*>(bytes), n};
}

const PageFile files[] = {{\"/\", \"text/html; charset=utf-8\", text(page_bytes)},
                          {\"/manifest.webmanifest\", \"application/manifest+json\", text(manifest_bytes)},
                          {\"/icon.svg\", \"image/svg+xml\", text(icon_bytes)}};
}  // namespace

std::span<const PageFile> chat_page_files() { return files; }

std::string_view chat_page_policy() {
  return \"${policy}\";
}

}  // namespace cria::tools
")
