#include "tools/serve/api/response_store.h"

#include <algorithm>
#include <utility>

#include "model/file/json.h"

namespace cria::serve {

std::list<ResponseStore::Entry>::iterator ResponseStore::find_entry(std::uint64_t scope,
                                                                    const std::string& id) {
  return std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.scope == scope && entry.id == id; });
}

bool ResponseStore::add(std::uint64_t scope, Json response, Json conversation) {
  Entry entry{scope, response["id"], ""};
  entry.text = json_text({{"response", std::move(response)}, {"talk", std::move(conversation)}});
  const std::size_t bytes = entry.text.size() + sizeof(Entry) + entry.id.size();
  if (!keeps(bytes)) return false;
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  entries_.push_front(std::move(entry));
  while (bytes_ > most_bytes_) {
    bytes_ -= entries_.back().text.size() + sizeof(Entry) + entries_.back().id.size();
    entries_.pop_back();
  }
  return true;
}

std::shared_ptr<const ResponseStore::Kept> ResponseStore::find(std::uint64_t scope,
                                                               const std::string& id) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    const auto found = find_entry(scope, id);
    if (found == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found);
    text = found->text;
  }
  Json json = Json::parse(text);
  return std::make_shared<const Kept>(Kept{std::move(json["response"]), std::move(json["talk"])});
}

Json ResponseStore::find_item(std::uint64_t scope, const std::string& id) {
  std::string response;
  {
    const std::lock_guard lock(mutex_);
    const std::string needle = "\"" + id + "\"";
    for (const Entry& entry : entries_)
      if (entry.scope == scope && entry.text.find(needle) != std::string::npos) {
        response = entry.id;
        break;
      }
  }
  const auto kept = find(scope, response);
  if (kept == nullptr) return nullptr;
  for (const Json& item : kept->response["output"])
    if (item["id"] == id) return item;
  return nullptr;
}

bool ResponseStore::remove(std::uint64_t scope, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = find_entry(scope, id);
  if (found == entries_.end()) return false;
  bytes_ -= found->text.size() + sizeof(Entry) + found->id.size();
  entries_.erase(found);
  return true;
}

}  // namespace cria::serve
