// Pages of keys and values, found by the tokens that they were computed from: a tree of pages of
// kKeyTile tokens (the last of an ended text may have fewer), each known by its scope, its parent
// and its tokens. A page that only the index holds is kept until its place is needed; the least
// recently used goes first, of one prefix the last page.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/execute/kv_pool.h"
#include "model/token_id.h"

namespace cria {

class PrefixCache {
 public:
  /// An entry. The serial number tells it from one that took its place later; 0: the root.
  struct Ref {
    std::uint32_t entry = 0;
    std::uint64_t serial = 0;
  };

  /// Never allocates again: each entry holds at least one page of the pool, which outlives the
  /// index.
  explicit PrefixCache(KvPool& pool);

  /// An entry and how many tokens it begins with that were asked for; 0: none.
  struct Match {
    Ref ref;
    std::size_t tokens = 0;
  };
  /// Of the entries after `parent` the one that has most of these tokens.
  [[nodiscard]] Match longest(std::uint64_t scope, Ref parent,
                              std::span<const TokenId> tokens) const;
  /// Adds the page of at most kKeyTile tokens with its place in each group (page `index` of the
  /// tables), or gives the entry that is there already the places that it lacks: the tables then
  /// hold the entry's pages. An entry that has more tokens is left as it is; one that has fewer
  /// goes.
  Ref add(std::uint64_t scope, Ref parent, std::span<const TokenId> tokens, PageTables& tables,
          std::size_t index);
  /// kNoPage: the group's page is gone, or the whole entry.
  [[nodiscard]] PageId page(Ref ref, std::size_t group) const;
  /// These pages, of one prefix, were used now.
  void touch(std::span<const Ref> prefix);
  /// Gives a page of the group back that nobody else holds. False: there is none.
  bool evict(std::size_t group);
  /// Lets go of a page that somebody wants for himself.
  void forget(std::size_t group, PageId page);

 private:
  struct Entry {
    std::uint64_t serial = 0;  // 0: free
    std::uint64_t scope = 0, parent = 0, used = 0;
    std::uint32_t depth = 0, next = 0;  // next: of the bucket, or of the free ones
    std::uint32_t n = 0;
    std::array<TokenId, kKeyTile> tokens{};
    [[nodiscard]] std::span<const TokenId> text() const { return std::span(tokens).first(n); }
  };
  [[nodiscard]] std::size_t bucket(std::uint64_t scope, std::uint64_t parent) const;
  Ref create(std::uint64_t scope, Ref parent, std::span<const TokenId> tokens, std::size_t index);
  void drop_shorter(std::uint64_t scope, Ref parent, std::span<const TokenId> tokens);
  [[nodiscard]] PageId& place(std::uint32_t entry, std::size_t group) {
    return places_[entry * pool_.groups() + group];
  }
  void drop(std::uint32_t entry, std::size_t group);

  KvPool& pool_;
  std::vector<Entry> entries_;
  std::vector<PageId> places_;          // [entry][group]
  std::vector<std::uint32_t> buckets_;  // first entry, or none
  std::uint32_t free_;
  std::uint64_t last_serial_ = 0, clock_ = 0;
};

}  // namespace cria
