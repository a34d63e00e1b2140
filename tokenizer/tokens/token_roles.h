// What each token is to the tokenizer: the type that the file gives, mended where files in
// the wild are careless.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/vocabulary.h"

namespace cria {

/// Text and Unused stand for text, Byte for one byte. The others are found as they are written:
/// UserDefined (runs of spaces, words, HTML tags) in any text, Control and Marker (<think>, [INST]:
/// what looks as if a chat was marked with it) in trusted text only, and Control is no part of the
/// answer that is shown.
enum class TokenRole : std::uint8_t { Text, Unused, Byte, Control, Marker, UserDefined };

constexpr bool is_special(TokenRole role) { return role >= TokenRole::Control; }

/// The role of every token, by id.
std::vector<TokenRole> token_roles(const Vocabulary& vocabulary);

/// Throws Error if lists differ in length, special ids are outside the vocabulary, or BOS or EOS
/// are wanted but absent.
void check_vocabulary(const Vocabulary& vocabulary);

}  // namespace cria
