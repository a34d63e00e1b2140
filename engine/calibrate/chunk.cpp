#include "engine/calibrate/chunk.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace cria {
namespace {

constexpr std::size_t kBlock = 64;  // columns whose errors are answered together

}  // namespace

std::size_t nearest_code(const CodeFormat& f, float x) {
  const auto n = static_cast<float>(f.grid.size());
  if (f.grid.back() - f.grid.front() + 1 == static_cast<int>(f.grid.size())) {
    const float code = std::ceil(x - 0.5F - static_cast<float>(f.grid.front()));
    return static_cast<std::size_t>(std::clamp(code, 0.0F, n - 1));
  }
  std::size_t code = 0;
  while (code + 1 < f.grid.size() && static_cast<float>(f.grid[code] + f.grid[code + 1]) < 2 * x)
    ++code;
  return code;
}

FeedbackChunk::FeedbackChunk(const FeedbackInputs& inputs, std::span<const float> targets)
    : in_(inputs),
      targets_(targets),
      n_(inputs.moments.size()),
      n_rows_(targets.size() / n_),
      rows_(n_rows_),
      rest_(targets.size()),
      answered_(targets.size()),
      gradient_(targets.size()) {}

FeedbackLoss FeedbackChunk::run(std::byte* out) {
  const std::size_t row_bytes = dtype_info(in_.format.type).row_bytes(n_);
  encode(out);
  std::vector<double> best = losses();
  FeedbackLoss loss;
  for (const double of_row : best) loss.encoded += of_row;
  for (int round = 0; round <= in_.options.refits; ++round) {
    if (round > 0) refit();
    feed_back();
    for (int pass = 0; pass < in_.options.descents && descend(); ++pass) continue;
    const std::vector<double> now = losses();
    for (std::size_t r = 0; r < n_rows_; ++r) {
      if (!(now[r] < best[r])) continue;
      best[r] = now[r];
      pack_row(in_.format, rows_[r].codes, out + r * row_bytes);
    }
  }
  for (const double of_row : best) loss.found += of_row;
  return loss;
}

void FeedbackChunk::encode(std::byte* out) {
  const DTypeInfo& info = dtype_info(in_.format.type);
  const EncodeFn encoder = in_.kernels.encode(info.id);
  for (std::size_t r = 0; r < n_rows_; ++r) {
    std::byte* const row = out + r * info.row_bytes(n_);
    encoder(&targets_[r * n_], in_.moments.importance().data(), n_, row);
    unpack_row(in_.format, row, n_, rows_[r].codes);
    rows_[r].factor.resize(n_);
    rows_[r].inverse.resize(n_);
    rows_[r].constant.resize(n_);
    rows_[r].values.resize(n_);
    set_scales(rows_[r]);
    set_values(rows_[r]);
  }
}

void FeedbackChunk::set_scales(Row& row) const {
  for (std::size_t j = 0; j < n_; ++j) {
    const float factor = row.codes.factor(in_.format, j);
    row.factor[j] = factor;
    row.inverse[j] = factor == 0 ? 0 : 1 / factor;
    row.constant[j] = factor * static_cast<float>(row.codes.shift[j / in_.format.sub_block]) -
                      row.codes.subtracted(in_.format, j);
  }
}

void FeedbackChunk::set_values(Row& row) const {
  for (std::size_t j = 0; j < n_; ++j) {
    const int plain = row.codes.q[j] - row.codes.shift[j / in_.format.sub_block];
    row.values[j] = row.factor[j] * static_cast<float>(plain) + row.constant[j];
  }
}

// A column, or a group of them, after the other. Errors are answered at once within a block of
// columns, and by one product in the columns behind it.
void FeedbackChunk::feed_back() {
  for (std::size_t r = 0; r < n_rows_; ++r)
    for (std::size_t k = 0; k < n_; ++k) rest_[r * n_ + k] = targets_[r * n_ + in_.order[k]];
  for (std::size_t begin = 0; begin < n_; begin += kBlock) {
    const std::size_t end = std::min(n_, begin + kBlock);
    for (std::size_t k = begin; k < end; k += in_.width) {
      if (in_.format.book.empty())
        feed_back_column(k, end);
      else
        feed_back_group(k, end);
    }
    if (end < n_)
      add_products(in_.kernels, &in_.factor[end * n_ + begin], n_, n_ - end, end - begin,
                   &answered_[begin], n_, n_rows_, &rest_[end], n_);
  }
}

void FeedbackChunk::feed_back_column(std::size_t k, std::size_t end) {
  const std::size_t j = in_.order[k];
  const float inverse = 1 / in_.factor[k * n_ + k];
  for (std::size_t r = 0; r < n_rows_; ++r) {
    Row& row = rows_[r];
    float* const rest = &rest_[r * n_];
    const std::int16_t q =
        in_.format.grid[nearest_code(in_.format, (rest[k] - row.constant[j]) * row.inverse[j])];
    row.codes.q[j] = static_cast<std::int16_t>(q + row.codes.shift[j / in_.format.sub_block]);
    row.values[j] = row.factor[j] * static_cast<float>(q) + row.constant[j];
    const float answer = (row.values[j] - rest[k]) * inverse;
    answered_[r * n_ + k] = answer;
    for (std::size_t l = k + 1; l < end; ++l) rest[l] += answer * in_.factor[l * n_ + k];
  }
}

void FeedbackChunk::feed_back_group(std::size_t k, std::size_t end) {
  const std::size_t width = in_.width, first = in_.order[k];
  GroupMatrix u{};
  for (std::size_t i = 0; i < width; ++i)
    for (std::size_t l = i; l < width; ++l) u[i][l] = in_.factor[(k + l) * n_ + k + i];
  const GroupMatrix v = inverse_of(u, width);
  GroupMatrix metric{};
  for (std::size_t i = 0; i < width; ++i)
    for (std::size_t l = 0; l < width; ++l)
      for (std::size_t m = 0; m < width; ++m) metric[i][l] += v[i][m] * v[l][m];
  const EntrySearch search(in_.format, width, metric, in_.kernels);
  for (std::size_t r = 0; r < n_rows_; ++r) {
    Row& row = rows_[r];
    float* const rest = &rest_[r * n_];
    std::array<double, 8> target{};
    for (std::size_t i = 0; i < width; ++i)
      target[i] = (rest[k + i] - row.constant[first + i]) * row.inverse[first + i];
    set_entry(row, first, search.find(target));
    for (std::size_t i = 0; i < width; ++i) {
      double answer = 0;
      for (std::size_t m = 0; m <= i; ++m)
        answer += (double{row.values[first + m]} - rest[k + m]) * v[m][i];
      answered_[r * n_ + k + i] = static_cast<float>(answer);
    }
    for (std::size_t l = k + width; l < end; ++l) {
      float sum = rest[l];
      for (std::size_t i = 0; i < width; ++i)
        sum += answered_[r * n_ + k + i] * in_.factor[l * n_ + k + i];
      rest[l] = sum;
    }
  }
}

void FeedbackChunk::set_entry(Row& row, std::size_t first, const EntrySearch::Found& found) {
  for (std::size_t i = 0; i < in_.width; ++i) {
    row.codes.entry[(first + i) / in_.format.group] = found.entry[i / in_.format.group];
    row.codes.q[first + i] =
        static_cast<std::int16_t>(found.q[i] + row.codes.shift[(first + i) / in_.format.sub_block]);
    row.values[first + i] =
        row.factor[first + i] * static_cast<float>(found.q[i]) + row.constant[first + i];
  }
}

void FeedbackChunk::gradients() {
  std::vector<float> error(n_rows_ * n_);
  for (std::size_t r = 0; r < n_rows_; ++r)
    for (std::size_t j = 0; j < n_; ++j)
      error[r * n_ + j] = rows_[r].values[j] - targets_[r * n_ + j];
  std::ranges::fill(gradient_, 0.0F);
  add_products(in_.kernels, in_.moments.row(0), n_, n_, n_, error.data(), n_, n_rows_,
               gradient_.data(), n_);
}

std::vector<double> FeedbackChunk::losses() {
  gradients();
  std::vector<double> loss(n_rows_);
  for (std::size_t r = 0; r < n_rows_; ++r)
    for (std::size_t j = 0; j < n_; ++j)
      loss[r] += (double{rows_[r].values[j]} - targets_[r * n_ + j]) * gradient_[r * n_ + j];
  return loss;
}

bool FeedbackChunk::descend() {
  gradients();
  if (!in_.format.book.empty()) return descend_groups();
  bool moved = false;
  for (std::size_t r = 0; r < n_rows_; ++r)
    moved = descend_columns(rows_[r], &gradient_[r * n_]) || moved;
  return moved;
}

// Later columns alone still look at the gradient in this pass.
bool FeedbackChunk::descend_columns(Row& row, float* gradient) {
  bool moved = false;
  for (std::size_t j = 0; j < n_; ++j) {
    const float* const h = in_.moments.row(j);
    const float best = row.values[j] - gradient[j] / h[j];
    const std::int16_t shift = row.codes.shift[j / in_.format.sub_block];
    const std::int16_t q =
        in_.format.grid[nearest_code(in_.format, (best - row.constant[j]) * row.inverse[j])];
    if (q + shift == row.codes.q[j]) continue;
    const float value = row.factor[j] * static_cast<float>(q) + row.constant[j];
    in_.kernels.add_scaled(gradient + j, h + j, value - row.values[j], n_ - j);
    row.codes.q[j] = static_cast<std::int16_t>(q + shift);
    row.values[j] = value;
    moved = true;
  }
  return moved;
}

bool FeedbackChunk::descend_groups() {
  const std::size_t width = in_.width;
  bool moved = false;
  for (std::size_t first = 0; first < n_; first += width) {
    GroupMatrix metric{};
    for (std::size_t i = 0; i < width; ++i)
      for (std::size_t l = 0; l < width; ++l) metric[i][l] = in_.moments.row(first + i)[first + l];
    const GroupMatrix inverse = inverse_of(metric, width);
    const EntrySearch search(in_.format, width, metric, in_.kernels);
    for (std::size_t r = 0; r < n_rows_; ++r) {
      Row& row = rows_[r];
      float* const gradient = &gradient_[r * n_];
      std::array<double, 8> target{}, present{};
      for (std::size_t i = 0; i < width; ++i) {
        double best = row.values[first + i];
        for (std::size_t l = 0; l < width; ++l) best -= inverse[i][l] * gradient[first + l];
        target[i] = (best - row.constant[first + i]) * row.inverse[first + i];
        present[i] = row.codes.q[first + i] - row.codes.shift[(first + i) / in_.format.sub_block];
      }
      const EntrySearch::Found found = search.find(target);
      double cost = 0;
      for (std::size_t i = 0; i < width; ++i)
        for (std::size_t l = 0; l < width; ++l)
          cost += (present[i] - target[i]) * metric[i][l] * (present[l] - target[l]);
      if (!(found.cost < cost * (1 - 1e-9))) continue;  // the search is not exhaustive
      std::array<float, 8> before{};
      std::copy_n(&row.values[first], width, before.begin());
      set_entry(row, first, found);
      for (std::size_t i = 0; i < width; ++i)
        in_.kernels.add_scaled(gradient + first, in_.moments.row(first + i) + first,
                               row.values[first + i] - before[i], n_ - first);
      moved = true;
    }
  }
  return moved;
}

void FeedbackChunk::refit() {
  constexpr int kSweeps = 2;
  gradients();
  const std::size_t subs = in_.format.block / in_.format.sub_block;
  const bool integers = in_.format.scale_min != in_.format.scale_max;
  for (std::size_t r = 0; r < n_rows_; ++r) {
    Row& row = rows_[r];
    float* const gradient = &gradient_[r * n_];
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (std::size_t b = 0; b < n_ / in_.format.block; ++b) {
        if (in_.format.refits && !in_.format.row_scale) refit_block(row, b, gradient);
        for (std::size_t s = 0; integers && s < subs; ++s)
          refit_sub_block(row, b * subs + s, gradient);
      }
    }
    set_scales(row);
    set_values(row);
  }
}

// d, and dmin, by least squares of what is left of the error.
void FeedbackChunk::refit_block(Row& row, std::size_t block, float* gradient) {
  const CodeFormat& f = in_.format;
  const std::size_t begin = block * f.block, size = f.block;
  std::vector<double> by_d(size), by_dmin(size);
  for (std::size_t i = 0; i < size; ++i) {
    by_d[i] = double{static_cast<float>(row.codes.scale[(begin + i) / f.sub_block])} *
              row.codes.q[begin + i];
    by_dmin[i] = -row.codes.offset[(begin + i) / f.sub_block];
  }
  const bool two = f.offset_max > 0 || f.float_offset;
  const Quadratic q = quadratic(begin, by_d, by_dmin, gradient);
  const double det = q.aa * q.bb - q.ab * q.ab;
  double step_d = q.aa > 0 ? -q.a / q.aa : 0, step_dmin = 0;
  if (two && det > 1e-9 * q.aa * q.bb) {
    step_d = (q.ab * q.b - q.bb * q.a) / det;
    step_dmin = (q.ab * q.a - q.aa * q.b) / det;
  }
  const float d = rounded_scale(f, static_cast<float>(row.codes.d[block] + step_d));
  const float dmin =
      two ? rounded_scale(f, static_cast<float>(row.codes.dmin[block] + step_dmin)) : 0;
  const double moved_d = double{d} - row.codes.d[block];
  const double moved_dmin = two ? double{dmin} - row.codes.dmin[block] : 0;
  if (d == 0 || !std::isfinite(d) || !std::isfinite(dmin) || !(q.gain(moved_d, moved_dmin) < 0))
    return;
  row.codes.d[block] = d;
  if (two) row.codes.dmin[block] = dmin;
  for (std::size_t i = 0; i < size; ++i) by_d[i] = moved_d * by_d[i] + moved_dmin * by_dmin[i];
  move(begin, by_d, gradient);
}

// The integers of a sub-block, one step up or down.
void FeedbackChunk::refit_sub_block(Row& row, std::size_t sub, float* gradient) {
  const CodeFormat& f = in_.format;
  const std::size_t begin = sub * f.sub_block, size = f.sub_block, block = begin / f.block;
  std::vector<double> by_scale(size), by_offset(size);
  for (std::size_t i = 0; i < size; ++i) {
    by_scale[i] = double{row.codes.d[block]} * row.codes.q[begin + i];
    by_offset[i] = -row.codes.dmin[block];
  }
  const Quadratic q = quadratic(begin, by_scale, by_offset, gradient);
  double best = 0;
  int scale_step = 0, offset_step = 0;
  for (int s = -1; s <= 1; ++s) {
    const int scale = row.codes.scale[sub] + s * f.scale_step;
    if (scale < f.scale_min || scale > f.scale_max) continue;
    for (int o = f.offset_max > 0 ? -1 : 0; o <= (f.offset_max > 0 ? 1 : 0); ++o) {
      const int offset = row.codes.offset[sub] + o;
      if (o != 0 && (offset < 0 || offset > f.offset_max)) continue;
      const double gain = q.gain(s * f.scale_step, o);
      if (!(gain < best)) continue;
      best = gain;
      scale_step = s * f.scale_step;
      offset_step = o;
    }
  }
  if (!(best < 0)) return;
  row.codes.scale[sub] = static_cast<std::int16_t>(row.codes.scale[sub] + scale_step);
  row.codes.offset[sub] = static_cast<std::int16_t>(row.codes.offset[sub] + offset_step);
  for (std::size_t i = 0; i < size; ++i)
    by_scale[i] = scale_step * by_scale[i] + offset_step * by_offset[i];
  move(begin, by_scale, gradient);
}

FeedbackChunk::Quadratic FeedbackChunk::quadratic(std::size_t begin, std::span<const double> a,
                                                  std::span<const double> b,
                                                  const float* gradient) const {
  std::array<float, 256> ha{}, hb{};
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float* const h = in_.moments.row(begin + i) + begin;
    if (a[i] != 0) in_.kernels.add_scaled(ha.data(), h, static_cast<float>(a[i]), a.size());
    if (b[i] != 0) in_.kernels.add_scaled(hb.data(), h, static_cast<float>(b[i]), a.size());
  }
  Quadratic q;
  for (std::size_t i = 0; i < a.size(); ++i) {
    q.a += a[i] * gradient[begin + i];
    q.b += b[i] * gradient[begin + i];
    q.aa += a[i] * ha[i];
    q.ab += a[i] * hb[i];
    q.bb += b[i] * hb[i];
  }
  return q;
}

void FeedbackChunk::move(std::size_t begin, std::span<const double> delta, float* gradient) const {
  for (std::size_t i = 0; i < delta.size(); ++i)
    if (delta[i] != 0)
      in_.kernels.add_scaled(gradient, in_.moments.row(begin + i), static_cast<float>(delta[i]),
                             n_);
}

}  // namespace cria
