// Attention over the KV cache, divided among threads: by groups of heads and blocks of tokens, and
// where there are few of those by segments of keys, too.
#include <algorithm>

#include "engine/execute/executor.h"

#include "kernels/formats/round.h"

namespace cria {

// Some query heads that read the same keys, as a job of their own. kv_group: which of the groups of
// such heads.
void Executor::select_heads(AttentionJob& job, const Node& node, std::size_t kv_group,
                            UnitRange heads) const {
  job.n_heads = heads.size();
  job.n_kv_heads = 1;
  job.q = work_.values[node.in].f32 + heads.begin * job.head_dim;
  job.out = work_.values[node.out].f32 + heads.begin * job.value_dim;
  if (job.sinks != nullptr) job.sinks += heads.begin;
  if (graph_.caches[node.cache].latent) return;
  const std::size_t stored = kv_group - parts_.caches[node.cache].begin;
  job.k += stored * job.k_head_bytes;
  job.v += stored * job.v_head_bytes;
}

// How the node's work is divided in this batch.
Executor::AttentionChunks Executor::attention_chunks(const Node& node) const {
  AttentionChunks chunks;
  chunks.shared = cache_.attention_job(node.cache, node.attention);
  chunks.shared.q_stride = work_.values[node.in].width;
  chunks.shared.out_stride = work_.values[node.out].width;
  const UnitRange own = part_of(node).own;
  chunks.heads = heads_together(node.attention, graph_.caches[node.cache]);
  chunks.first_group = own.begin / chunks.heads;
  chunks.groups = own.size() == 0 ? 0 : divide_up(own.end, chunks.heads) - chunks.first_group;
  const std::size_t jobs = chunks.groups * batch_->blocks.size();
  if (team_.threads() == 1 || jobs >= team_.threads() * kChunksPerThread) return chunks;
  std::size_t segments = 1, tokens = 0;
  for (const QueryBlock& block : batch_->blocks) {
    const SegmentRange first = chunks.shared.segments_of(batch_->positions[block.begin]),
                       last = chunks.shared.segments_of(batch_->positions[block.end - 1]);
    segments = std::max(segments, last.end - first.begin);
    tokens = std::max(tokens, block.end - block.begin);
  }
  chunks.state_floats = segment_state_floats(tokens * chunks.heads, chunks.shared.value_dim);
  if (segments * chunks.state_floats * jobs <= work_.segment_floats) chunks.segments = segments;
  return chunks;
}

// The job of a group of heads in a block.
AttentionJob Executor::attention_job(const Node& node, const AttentionChunks& chunks,
                                     std::size_t block, std::size_t group) const {
  const BatchSlice& slice = batch_->slices[batch_->blocks[block].slice];
  const UnitRange own = part_of(node).own;
  const std::size_t kv_group = chunks.first_group + group;
  AttentionJob job = chunks.shared;
  select_heads(job, node, kv_group,
               {std::max(own.begin, kv_group * chunks.heads),
                std::min(own.end, (kv_group + 1) * chunks.heads)});
  job.q += slice.begin * job.q_stride;
  job.out += slice.begin * job.out_stride;
  job.first_pos = slice.first_pos;
  job.pages = (*slice.pages)[cache_.group_of(node.cache)].data();
  return job;
}

// A chunk: a group of heads in a block, and of its keys a segment or all. Whoever finishes the last
// segment merges them. True where the group is finished.
bool Executor::attend(const Node& node, const AttentionChunks& chunks, std::size_t block,
                      std::size_t group, std::size_t segment, unsigned worker) {
  const QueryBlock& rows = batch_->blocks[block];
  const std::size_t first = batch_->slices[rows.slice].begin, begin = rows.begin - first,
                    end = rows.end - first;
  AttentionJob job = attention_job(node, chunks, block, group);
  if (chunks.segments == 1) {
    kernels_.attention(job, 0, begin, end, scratch(worker));
    return true;
  }
  const SegmentRange seen = job.segments_of(begin, end);
  if (segment >= seen.size()) return false;  // another block has more
  const std::size_t index = block * chunks.groups + group;
  float* const states = work_.segment_states + index * chunks.segments * chunks.state_floats;
  job.segment = seen.begin + segment;
  job.states = states + segment * segment_state_floats((end - begin) * job.n_heads, job.value_dim);
  kernels_.attention(job, 0, begin, end, scratch(worker));
  if (!completes(work_.pending_groups[index * kCountdownStride], 1, seen.size())) return false;
  job.states = states;
  kernels_.merge_segments(job, 0, begin, end);
  return true;
}

// Whoever finishes the last group of a block quantizes it.
void Executor::attention(const Node& node) {
  const AttentionChunks chunks = attention_chunks(node);
  const std::size_t of_block = chunks.groups * chunks.segments;
  const bool divided = part_of(node).divided();
  run_chunks(of_block * batch_->blocks.size(), [&](std::size_t chunk, unsigned worker) {
    const std::size_t block = chunk / of_block, i = chunk % of_block;
    const bool finished =
        attend(node, chunks, block, i / chunks.segments, i % chunks.segments, worker);
    if (divided || !finished || !completes(work_.pending[block], 1, chunks.groups)) return;
    const QueryBlock& rows = batch_->blocks[block];
    for (std::size_t token = rows.begin; token < rows.end; ++token) quantize_token(node, token);
  });
  if (divided && complete(node)) quantize_all(node);
}

}  // namespace cria
