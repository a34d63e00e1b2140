// The answers of a batch: one line each, appended as they come, so that an interrupted run can
// resume.
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
  /// path: "-" is stdout, which holds no earlier answers. ids: one per request. Finds the requests
  /// that the file answers already and cuts off an incomplete answer. in_order: answers are written
  /// in the order of the ids. Throws Error for a file that holds anything else.
  BatchAnswers(const std::string& path, std::vector<std::string> ids, bool in_order);

  [[nodiscard]] bool answered(std::size_t index) const { return answered_[index]; }
  [[nodiscard]] std::size_t count() const { return count_; }
  /// The number of refused requests in the file from earlier runs.
  [[nodiscard]] std::size_t errors() const { return errors_; }
  /// The seed that an answer in the file was drawn with.
  [[nodiscard]] std::optional<std::uint64_t> seed(std::size_t index) const;
  /// A line without its newline, of a request that was not answered. Throws Error if the disk
  /// refuses, OutputClosed if a pipe is closed.
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
  std::map<std::size_t, std::uint64_t> seeds_;  // seeds of earlier answers
  std::map<std::size_t, std::string> early_;    // answers waiting for earlier ones
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, &std::fclose};
};

}  // namespace cria::tools
