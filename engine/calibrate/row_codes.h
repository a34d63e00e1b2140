// Rows of quantized weights as what their bits mean, and back. Every weight is
// d·scale·q - dmin·offset, where q is one value of a grid or of a codebook's entry.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/formats/dtype.h"

namespace cria {

/// Possible values q and scales of a type.
struct CodeFormat {
  DType type{};
  std::size_t block = 0;                             ///< weights that share d
  std::size_t sub_block = 0;                         ///< weights that share an integer scale
  std::vector<std::int16_t> grid;                    ///< ascending; empty: a codebook
  std::vector<std::int8_t> book;                     ///< [entries][group]; empty: a grid
  std::size_t group = 1;                             ///< weights of an entry
  bool signs = false;                                ///< values of an entry may be negated …
  bool even_signs = false;                           ///< … but an even number of each eight
  int scale_min = 1, scale_max = 1, scale_step = 1;  ///< integer scales; equal: none
  int offset_max = 0;                                ///< integer offsets from 0; 0: none
  bool float_offset = false;  ///< the block has an offset of its own (Q4_1, Q5_1)
  bool refits = true;         ///< d is a float16 (or the row's float) and may be moved
  float unit = 1;             ///< d is the stored number divided by this
  bool row_scale = false;     ///< d is the row's
  bool has_shift = false;     ///< q is a grid's or entry's value plus the sub-block's shift

  [[nodiscard]] std::size_t entries() const { return book.size() / group; }
};
/// True for block types whose codes are chosen one by one, or by entries of a codebook.
bool has_code_format(DType type);
/// The format of such a type. Throws std::logic_error for other types.
const CodeFormat& code_format(DType type);

/// One row taken apart.
struct RowCodes {
  std::vector<std::int16_t> q;                     ///< by column
  std::vector<std::uint16_t> entry;                ///< by group of a codebook type
  std::vector<std::int16_t> scale, offset, shift;  ///< by sub-block
  std::vector<float> d, dmin;                      ///< by block

  [[nodiscard]] float factor(const CodeFormat& f, std::size_t column) const {
    return d[column / f.block] * static_cast<float>(scale[column / f.sub_block]);
  }
  [[nodiscard]] float subtracted(const CodeFormat& f, std::size_t column) const {
    return dmin[column / f.block] * static_cast<float>(offset[column / f.sub_block]);
  }
};

/// Takes a row of cols weights apart.
void unpack_row(const CodeFormat& format, const std::byte* row, std::size_t cols, RowCodes& out);
/// Writes it. What unpack_row() gave becomes the same weights.
void pack_row(const CodeFormat& format, const RowCodes& codes, std::byte* row);
/// The nearest d, or dmin, that the format holds.
float rounded_scale(const CodeFormat& format, float d);

}  // namespace cria
