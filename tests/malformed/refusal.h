// Runs the program on bad files, within the limits that it promises to keep: one line, a second,
// 100 MB.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tests/malformed/image.h"
#include "tests/tools/process.h"

namespace cria::test {

/// The program within 100 MB of memory and a second of processor time (more under sanitizers),
/// ended by a signal if it waits for something that does not come.
Result limited(const std::vector<std::string>& arguments, std::string_view input = {},
               const std::function<void()>& in_child = {});

/// Without the right of root to read and write what the mode of a file forbids.
void obey_file_modes();

/// Exit code 1, nothing on stdout, and exactly one line on stderr: "cria: error: " and what is
/// said, in which
/// * stands for any text.
void expect_error(const Result& result, std::string_view says);

/// The arguments that make the program answer from a model.
std::vector<std::string> answer_from(const std::string& model,
                                     std::initializer_list<std::string> more = {});

/// One thing that is wrong in an otherwise valid file.
struct Defect {
  std::string says;  ///< the whole message after the file's name
  std::function<void(Image&)> apply;
};
/// Each defect alone makes `cria run` refuse the file.
void expect_refused(const std::vector<Defect>& defects, const Image& valid = valid_model(),
                    std::initializer_list<std::string> more = {});
/// The same for bytes that no Image can describe.
void expect_bytes_refused(std::string_view bytes, std::string_view says);

/// The file is unusual but valid: the answer equals the valid file's.
void expect_same_answer(const Image& odd, const Image& valid = valid_model());
/// The file is odd but works, with an answer of its own.
Result expect_answer(const Image& odd, std::initializer_list<std::string> more = {});

}  // namespace cria::test
