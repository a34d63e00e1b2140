// Responses that later requests may continue.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "model/file/json.h"
#include "tools/serve/api/json_text.h"

namespace cria::serve {

/// Finished responses in memory, with their whole conversations: the least recently used go first.
/// Thread-safe.
class ResponseStore {
 public:
  explicit ResponseStore(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  struct Kept {
    Json response;
    Json conversation;  ///< messages of the equal request, with the answer
  };
  /// scope: of the API key; others do not see the response. Returns false if it is too large.
  bool add(std::uint64_t scope, Json response, Json conversation);
  /// True if a response of this size would be kept.
  [[nodiscard]] bool keeps(std::size_t bytes) const { return bytes <= most_bytes_; }
  std::shared_ptr<const Kept> find(std::uint64_t scope, const std::string& id);
  /// Returns an item of a response's output, or null.
  Json find_item(std::uint64_t scope, const std::string& id);
  bool remove(std::uint64_t scope, const std::string& id);

 private:
  struct Entry {
    std::uint64_t scope;
    std::string id, text;  ///< both as JSON, which takes less memory than a tree
  };
  std::list<Entry>::iterator find_entry(std::uint64_t scope, const std::string& id);

  const std::size_t most_bytes_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recent first
  std::size_t bytes_ = 0;
};

}  // namespace cria::serve
