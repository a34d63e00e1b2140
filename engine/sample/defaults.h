// What a model's file says of sampling: the keys general.sampling.*.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sample/options.h"
#include "model/gguf/writer.h"

namespace cria {

/// The ends of the keys, after "general.sampling.": temp, top_k, top_p, min_p, xtc_probability,
/// xtc_threshold, penalty_last_n, penalty_repeat, mirostat, mirostat_tau, mirostat_eta; and
/// sequence, names of steps separated by ';'.
std::vector<std::string_view> sampling_keys();

/// The one place that decides: sets in options what the file says, for the keys that may(end of the
/// key) allows (empty: all). Throws Error that names the key for a value of a wrong type or out of
/// range.
void set_sampling_defaults(const GgufFile& file, SamplerOptions& options,
                           const std::function<bool(std::string_view key)>& may = {});

/// A value as it is kept in a file (f32 or i32). Throws Error, which names no file, for a key that
/// has none (sequence) and a number that is out of its range.
GgufData sampling_value(std::string_view key, double number);

/// What is in force, "temp 0.2, top_k 40, …", without what is off; and what of it the file says.
std::string sampling_text(const SamplerOptions& options, const GgufFile& file);

}  // namespace cria
