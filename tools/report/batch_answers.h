// The file of a batch's answers: a line each, appended as they come, so that a run that was ended
// goes on where it was.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria::tools {

/// "17-00ab…": which request an answer is of, by its place and its bytes.
std::string batch_answer_id(std::size_t index, std::string_view request);

class BatchAnswers {
 public:
  /// path: "-" is stdout, where nothing is answered already. ids: of all requests. Finds which of
  /// them the file answers already, and cuts off an answer that is not complete. in_order: answers
  /// are written in the order of the ids. Throws Error for a file that holds anything else.
  BatchAnswers(const std::string& path, std::vector<std::string> ids, bool in_order);

  [[nodiscard]] bool answered(std::size_t index) const { return answered_[index]; }
  [[nodiscard]] std::size_t count() const { return count_; }
  /// Of the requests that the file answered already: those that were refused.
  [[nodiscard]] std::size_t errors() const { return errors_; }
  /// The seed that an answer in the file was drawn with.
  [[nodiscard]] std::optional<std::uint64_t> seed(std::size_t index) const;
  /// A line without its newline, of a request that was not answered. Throws Error if the disk
  /// refuses, OutputClosed where nobody reads a pipe any more.
  void add(std::size_t index, const std::string& line);

 private:
  void resume();
  [[nodiscard]] bool is_cut_answer(std::string_view line) const;
  [[noreturn]] void refuse(std::size_t begin) const;
  void write(const std::string& line);

  const std::string path_;
  const std::vector<std::string> ids_;
  const bool in_order_;
  std::vector<bool> answered_;
  std::size_t count_ = 0, errors_ = 0, next_ = 0;
  std::map<std::size_t, std::uint64_t> seeds_;  // of answers that were there
  std::map<std::size_t, std::string> early_;    // whose turn has not come
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, &std::fclose};
};

}  // namespace cria::tools
