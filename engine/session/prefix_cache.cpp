#include "engine/session/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "model/file/binary_file.h"

namespace cria {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

}  // namespace

PrefixCache::PrefixCache(KvPool& pool) : pool_(pool), free_(0) {
  std::size_t n = 0;
  for (std::size_t group = 0; group < pool.kept_groups(); ++group) n += pool.pages(group);
  entries_.resize(n);
  places_.resize(n * pool.kept_groups(), kNoPage);
  buckets_.resize(std::bit_ceil(n + 1), kNone);
  for (std::size_t i = 0; i < n; ++i)
    entries_[i].next = i + 1 < n ? static_cast<std::uint32_t>(i + 1) : kNone;
}

std::size_t PrefixCache::bucket(std::uint64_t scope, std::uint64_t parent) const {
  Hash hash;
  hash.add_number(scope);
  hash.add_number(parent);
  return hash.value() & (buckets_.size() - 1);
}

PrefixCache::Match PrefixCache::longest(std::uint64_t scope, Ref parent,
                                        std::span<const TokenId> tokens) const {
  Match best;
  for (std::uint32_t i = buckets_[bucket(scope, parent.serial)]; i != kNone; i = entries_[i].next) {
    const Entry& e = entries_[i];
    if (e.scope != scope || e.parent != parent.serial) continue;
    const std::size_t same = common_prefix(e.text(), tokens);
    // On a tie, take the shortest entry.
    if (same > best.tokens ||
        (same != 0 && same == best.tokens && e.n < entries_[best.ref.entry].n))
      best = {{i, e.serial}, same};
  }
  return best;
}

PrefixCache::Ref PrefixCache::create(std::uint64_t scope, Ref parent,
                                     std::span<const TokenId> tokens, std::size_t index) {
  assert(free_ != kNone);
  const Ref ref = {free_, ++last_serial_};
  Entry& e = entries_[free_];
  free_ = e.next;
  e.serial = ref.serial;
  e.scope = scope;
  e.parent = parent.serial;
  e.depth = static_cast<std::uint32_t>(index);
  e.n = static_cast<std::uint32_t>(tokens.size());
  std::ranges::copy(tokens, e.tokens.begin());
  std::uint32_t& first = buckets_[bucket(scope, parent.serial)];
  e.next = first;
  first = ref.entry;
  return ref;
}

void PrefixCache::drop_shorter(std::uint64_t scope, Ref parent, std::span<const TokenId> tokens) {
  std::uint32_t next = kNone;
  for (std::uint32_t i = buckets_[bucket(scope, parent.serial)]; i != kNone; i = next) {
    const Entry& e = entries_[i];
    next = e.next;
    if (e.scope != scope || e.parent != parent.serial || e.n >= tokens.size() ||
        common_prefix(e.text(), tokens) < e.n)
      continue;
    for (std::size_t group = 0; group < pool_.kept_groups(); ++group)
      if (place(i, group) != kNoPage) drop(i, group);
  }
}

PrefixCache::Ref PrefixCache::add(std::uint64_t scope, Ref parent, std::span<const TokenId> tokens,
                                  PageTables& tables, std::size_t index) {
  assert(!tokens.empty() && tokens.size() <= kKeyTile);
  const Match match = longest(scope, parent, tokens);
  const bool known = match.tokens == tokens.size();
  if (known && entries_[match.ref.entry].n > tokens.size()) return match.ref;
  if (!known) drop_shorter(scope, parent, tokens);
  const Ref ref = known ? match.ref : create(scope, parent, tokens, index);
  for (std::size_t group = 0; group < pool_.kept_groups(); ++group) {
    PageId &kept = place(ref.entry, group), &own = tables[group][index];
    if (own == kNoPage || kept == own) continue;
    if (kept == kNoPage) {
      kept = own;
      pool_.share(group, kept);
    } else {  // the same bytes
      pool_.release(group, own);
      own = kept;
      pool_.share(group, own);
    }
  }
  entries_[ref.entry].used = ++clock_;
  return ref;
}

PageId PrefixCache::page(Ref ref, std::size_t group) const {
  if (ref.serial == 0 || entries_[ref.entry].serial != ref.serial) return kNoPage;
  return places_[ref.entry * pool_.kept_groups() + group];
}

void PrefixCache::touch(std::span<const Ref> prefix) {
  ++clock_;
  for (const Ref& ref : prefix)
    if (entries_[ref.entry].serial == ref.serial) entries_[ref.entry].used = clock_;
}

bool PrefixCache::evict(std::size_t group) {
  if (group >= pool_.kept_groups()) return false;
  std::uint32_t oldest = kNone;
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    const PageId page = place(i, group);
    if (page == kNoPage || pool_.references(group, page) > 1) continue;
    const Entry& e = entries_[i];
    if (oldest == kNone || e.used < entries_[oldest].used ||
        (e.used == entries_[oldest].used && e.depth > entries_[oldest].depth))
      oldest = i;
  }
  if (oldest == kNone) return false;
  drop(oldest, group);
  return true;
}

void PrefixCache::release(std::size_t group, PageId page) {
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    if (place(i, group) == page) return drop(i, group);
  }
}

// Releases the entry's page of the group; drops the entry with its last page.
void PrefixCache::drop(std::uint32_t entry, std::size_t group) {
  pool_.release(group, place(entry, group));
  place(entry, group) = kNoPage;
  for (std::size_t g = 0; g < pool_.kept_groups(); ++g)
    if (place(entry, g) != kNoPage) return;
  Entry& e = entries_[entry];
  std::uint32_t* link = &buckets_[bucket(e.scope, e.parent)];
  while (*link != entry) link = &entries_[*link].next;
  *link = e.next;
  e.serial = 0;
  e.next = free_;
  free_ = entry;
}

}  // namespace cria
