// The chat page of `cria serve`: one self-contained HTML file, assembled from the files of this
// directory (assemble.cmake) and compiled into the program.
#pragma once

#include <span>
#include <string_view>

namespace cria::tools {

/// A file of the page, served at `path`; its texts are literals.
struct PageFile {
  std::string_view path, type, bytes;
};

/// The page at "/", UTF-8, which has one <script> and one <style>, no inline handlers and no style
/// attributes; its web app manifest and its icon.
std::span<const PageFile> chat_page_files();

/// The value of its Content-Security-Policy header: only this script and this style (by SHA-256),
/// requests only to the server.
std::string_view chat_page_policy();

}  // namespace cria::tools
