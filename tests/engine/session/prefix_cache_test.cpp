// The prefix cache finds matching pages and evicts the right one.
#include "engine/session/prefix_cache.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/engine/demo.h"

namespace cria::test {
namespace {

using Ref = PrefixCache::Ref;

// One group of six pages. Page `first` of a text holds the tokens from `first` on.
class Prefixes : public testing::Test {
 protected:
  /// Adds n pages of text, each after the one before. Only the cache holds them.
  std::vector<Ref> add(TokenId first, std::size_t n, std::uint64_t scope = 0) {
    std::vector<Ref> refs;
    PageTables tables(1);
    for (std::size_t i = 0; i < n; ++i) {
      tables[0].push_back(pool_.take(0));
      EXPECT_NE(tables[0].back(), kNoPage);
      refs.push_back(index_.add(scope, refs.empty() ? Ref{} : refs.back(),
                                text(first + static_cast<TokenId>(i)), tables, i));
    }
    for (const PageId page : tables[0]) pool_.release(0, page);
    return refs;
  }
  static std::vector<TokenId> text(TokenId first) {
    std::vector<TokenId> tokens(kKeyTile);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  }
  [[nodiscard]] bool is_there(Ref ref) const { return index_.page(ref, 0) != kNoPage; }

  KvPool pool_{demo_model().graph(),
               {.n_ctx = 6 * kKeyTile,
                .n_batch = kKeyTile,
                .positions = 6 * kKeyTile,
                .has_prefix_cache = true}};
  PrefixCache index_{pool_};
};

TEST_F(Prefixes, TheLeastRecentlyUsedGoesFirst) {
  ASSERT_EQ(pool_.groups(), 1U);
  const std::vector<Ref> a = add(100, 1), b = add(200, 1), c = add(300, 1);
  index_.touch(a);  // the first that came, but not the longest unused
  for (const auto& [gone, left] : {std::pair{b, 2}, {c, 1}, {a, 0}}) {
    EXPECT_TRUE(is_there(gone[0]));
    EXPECT_TRUE(index_.evict(0));
    EXPECT_FALSE(is_there(gone[0]));
    EXPECT_EQ(is_there(a[0]) + is_there(b[0]) + is_there(c[0]), left);
  }
  EXPECT_FALSE(index_.evict(0)) << "the cache is empty";
  EXPECT_EQ(pool_.free_pages(0), pool_.pages(0));
}

// The first pages serve other texts with a common prefix. Pages after an evicted one would be
// useless.
TEST_F(Prefixes, OfOnePrefixTheLastPageGoesFirst) {
  const std::vector<Ref> pages = add(100, 3);
  index_.touch(pages);
  for (std::size_t left = 3; left-- > 0;) {
    EXPECT_TRUE(index_.evict(0));
    for (std::size_t i = 0; i < pages.size(); ++i)
      EXPECT_EQ(is_there(pages[i]), i < left) << i << left;
  }
}

TEST_F(Prefixes, KeepPagesOfLiveSequences) {
  const std::vector<Ref> held = add(100, 1), other = add(200, 1);
  const PageId page = index_.page(held[0], 0);
  pool_.share(0, page);
  EXPECT_TRUE(index_.evict(0));
  EXPECT_FALSE(is_there(other[0])) << "used later, but no sequence holds it";
  EXPECT_FALSE(index_.evict(0));
  pool_.release(0, page);
  EXPECT_TRUE(index_.evict(0));
}

TEST_F(Prefixes, AreFoundByScopeParentAndTokens) {
  const std::vector<Ref> pages = add(100, 2);
  const auto found = [&](std::uint64_t scope, Ref parent, TokenId first) {
    return index_.longest(scope, parent, text(first)).tokens;
  };
  EXPECT_EQ(found(0, {}, 100), kKeyTile);
  EXPECT_EQ(found(0, pages[0], 101), kKeyTile);
  EXPECT_EQ(found(0, {}, 101), 0U) << "not as a beginning";
  EXPECT_EQ(found(7, {}, 100), 0U) << "of another scope";
  std::vector<TokenId> differs = text(100);
  differs[10] = 5;
  EXPECT_EQ(index_.longest(0, {}, differs).tokens, 10U);
}

// A reference to an evicted page does not match the page that replaced it.
TEST_F(Prefixes, ReferencesOutliveTheirPages) {
  const Ref old = add(100, 1)[0];
  ASSERT_TRUE(index_.evict(0));
  const Ref fresh = add(200, 1)[0];
  EXPECT_EQ(fresh.entry, old.entry) << "the place is taken again";
  EXPECT_FALSE(is_there(old));
  EXPECT_TRUE(is_there(fresh));
  const Ref both[] = {old, fresh};
  index_.touch(both);
  EXPECT_TRUE(index_.evict(0));
  EXPECT_FALSE(is_there(fresh));
}

}  // namespace
}  // namespace cria::test
