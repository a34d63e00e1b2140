// Attention over the KV cache, divided among threads by groups of heads and blocks of tokens. If
// these are few, the keys are divided into segments, too (split-KV), which are always merged in the
// same order.
#include <algorithm>

#include "engine/execute/pass.h"
#include "kernels/simd/round.h"

namespace cria {
namespace {

// Attention of one node in one batch.
class AttentionRun {
 public:
  AttentionRun(const AttentionOp& op, const Node& node, Pass& pass)
      : pass_(pass),
        node_(node),
        spec_(pass.graph.caches[op.cache]),
        cache_(op.cache),
        own_(pass.part_of(node).own.range()),
        causal_(op.causal),
        shared_(pass.cache.attention_job(op.cache, op)),
        heads_(op.heads_together(spec_)),
        first_group_(own_.begin / heads_),
        groups_(own_.size() == 0 ? 0 : divide_up(own_.end, heads_) - first_group_) {
    shared_.q_stride = pass.work[node.in].width;
    shared_.out_stride = pass.work[node.out].width;
    choose_segments();
  }

  // Whichever chunk finishes the last group of a block quantizes it.
  void run() {
    const std::size_t per_block = groups_ * segments_;
    const bool divided = pass_.part_of(node_).divided();
    pass_.team.run_any(per_block * pass_.batch->blocks.size(),
                       [&](std::size_t chunk, unsigned worker) {
                         const std::size_t block = chunk / per_block, i = chunk % per_block;
                         if (!attend(block, i / segments_, i % segments_, worker) || divided ||
                             !completes(pass_.work.pending[block], 1, groups_))
                           return;
                         const QueryBlock& rows = pass_.batch->blocks[block];
                         for (std::size_t token = rows.begin; token < rows.end; ++token)
                           pass_.quantize_row(node_, token);
                       });
    if (divided) pass_.finish(node_);
  }

 private:
  void choose_segments() {
    const auto& blocks = pass_.batch->blocks;
    const auto& positions = pass_.batch->positions;
    const std::size_t jobs = groups_ * blocks.size(), threads = pass_.team.threads();
    if (threads == 1 || jobs >= threads * kChunksPerThread) return;
    std::size_t segments = 1, tokens = 0;
    for (const QueryBlock& block : blocks) {
      shared_.text = text_of(pass_.batch->slices[block.slice]);
      const SegmentRange first = shared_.segments_of(positions[block.begin]),
                         last = shared_.segments_of(positions[block.end - 1]);
      segments = std::max(segments, last.end - first.begin);
      tokens = std::max(tokens, block.end - block.begin);
    }
    state_floats_ = segment_state_floats(tokens * heads_, shared_.value_dim);
    if (segments * state_floats_ * jobs <= pass_.work.segment_floats) segments_ = segments;
  }

  // AttentionJob::text. A slice of an encoder ends with its text.
  [[nodiscard]] std::size_t text_of(const BatchSlice& slice) const {
    return causal_ ? 0 : slice.first_pos + slice.end - slice.begin;
  }

  // Returns the job of a group of heads, which read the same keys, in a block.
  [[nodiscard]] AttentionJob job_of(std::size_t block, std::size_t group) const {
    const BatchSlice& slice = pass_.batch->slices[pass_.batch->blocks[block].slice];
    const std::size_t kv_group = first_group_ + group;
    const UnitRange heads{std::max(own_.begin, kv_group * heads_),
                          std::min(own_.end, (kv_group + 1) * heads_)};
    AttentionJob job = shared_;
    job.n_heads = heads.size();
    job.n_kv_heads = 1;
    job.q = pass_.work[node_.in].row(slice.begin) + heads.begin * job.head_dim;
    job.out = pass_.work[node_.out].row(slice.begin) + heads.begin * job.value_dim;
    if (job.sinks != nullptr) job.sinks += heads.begin;
    if (!spec_.latent) {
      const std::size_t stored = kv_group - pass_.parts.caches[cache_].begin;
      job.k += stored * job.k_head_bytes;
      job.v += stored * job.v_head_bytes;
    }
    job.first_pos = slice.first_pos;
    job.text = text_of(slice);
    job.pages = (*slice.pages)[pass_.cache.group_of(cache_)].data();
    return job;
  }

  // Computes a chunk: a group of heads in a block, and a segment of its keys or all. Whichever
  // finishes the last segment merges them. Returns true if the group is finished.
  bool attend(std::size_t block, std::size_t group, std::size_t segment, unsigned worker) {
    const QueryBlock& rows = pass_.batch->blocks[block];
    const std::size_t first = pass_.batch->slices[rows.slice].begin, begin = rows.begin - first,
                      end = rows.end - first;
    AttentionJob job = job_of(block, group);
    if (segments_ == 1) {
      pass_.kernels.attention(job, 0, begin, end, pass_.scratch(worker));
      return true;
    }
    const SegmentRange seen = job.segments_of(begin, end);
    if (segment >= seen.size()) return false;  // another block has more
    const std::size_t index = block * groups_ + group;
    float* const states = pass_.work.segment_states + index * segments_ * state_floats_;
    job.segment = seen.begin + segment;
    job.states =
        states + segment * segment_state_floats((end - begin) * job.n_heads, job.value_dim);
    pass_.kernels.attention(job, 0, begin, end, pass_.scratch(worker));
    if (!completes(pass_.work.pending_groups[index * kCountdownStride], 1, seen.size()))
      return false;
    job.states = states;
    pass_.kernels.merge_segments(job, 0, begin, end);
    return true;
  }

  Pass& pass_;
  const Node& node_;
  const CacheSpec& spec_;
  const std::uint32_t cache_;
  const UnitRange own_;
  const bool causal_;
  AttentionJob shared_;
  const std::size_t heads_, first_group_, groups_;  // query heads of a group
  std::size_t segments_ = 1;                        // 1: all keys together
  std::size_t state_floats_ = 0;                    // max of a group and segment
};

}  // namespace

std::size_t AttentionOp::heads_together(const CacheSpec& spec) const {
  return n_heads / (spec.latent ? kv_groups : spec.n_kv_heads);
}

// Heads that share keys stay together as long as every rank gets some.
NodeFacts AttentionOp::facts(const Graph& graph, const Node& node) const {
  const CacheSpec& spec = graph.caches[cache];
  std::string text = ", scale " + number_text(scale);
  if (!causal) text += ", both ways";
  if (window != 0) text += ", window " + std::to_string(window);
  if (chunk != 0) text += ", chunks of " + std::to_string(chunk);
  if (softcap != 0) text += ", softcap " + number_text(softcap);
  if (sinks) text += ", sinks " + tensor_text(*sinks);
  if (spec.latent) text += ", latent";
  NodeFacts facts{std::move(text), ", kv cache " + std::to_string(cache), ""};
  if (sinks) facts.tensors = {*sinks};
  facts.division = {UnitsOfRank::Share,        n_heads,        spec.dim_v, 0,
                    n_heads / spec.n_kv_heads, spec.n_kv_heads};
  facts.unit_reads = {{node.in, 0, spec.dim_k}};
  facts.scratch = attention_scratch_bytes(spec.dim_k, spec.dim_v);
  facts.segment_floats = segment_state_floats(n_heads, spec.dim_v);
  return facts;
}

void AttentionOp::run(const Node& node, Pass& pass) const { AttentionRun(*this, node, pass).run(); }

}  // namespace cria
