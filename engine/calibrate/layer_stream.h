// A model that is run a few nodes at a time over all windows of a text, so that its weights can
// change between nodes. Values that later nodes read are stored for every window. Weights are
// float32.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/execute/executor.h"
#include "engine/model.h"

namespace cria {

/// Windows of equal length, one after the other.
struct CalibrationTokens {
  std::size_t window = 512;
  std::vector<TokenId> ids;  ///< a multiple of window

  [[nodiscard]] std::size_t windows() const { return ids.size() / window; }
};

class LayerStream {
  class FloatWeights;

 public:
  /// All but threads must outlive it. The graph's matrices are as in the file.
  LayerStream(const Model& model, const CalibrationTokens& tokens, const KernelSet& kernels,
              unsigned threads);

  [[nodiscard]] const Graph& graph() const { return graph_; }
  /// Nodes [0, position()) have been run.
  [[nodiscard]] std::size_t position() const { return position_; }
  /// Continues where another stream of the same model and text is, with its matrices.
  void start_from(const LayerStream& other);
  /// Replaces a matrix of a node that was not run yet. The rows, in any type, must stay until the
  /// node has been run.
  void replace(std::size_t node, std::size_t matrix, const TensorView& rows);
  /// Runs nodes up to `end` for all windows.
  void run_to(std::size_t end);
  /// Returns the last place up to `node`, and not before position(), where no more has to be kept
  /// than between two layers.
  [[nodiscard]] std::size_t narrow_place(std::size_t node) const;
  /// Max floats that it keeps of a token to stop at narrow places and at `node`.
  [[nodiscard]] std::size_t kept_width(std::size_t node) const {
    return std::max(between_layers_, widths_[node]);
  }
  /// Rows of a value that a later node reads, or changes: of all tokens, [rows][width].
  [[nodiscard]] std::span<const float> rows(ValueId value) const { return kept_[value]; }
  /// At a node over experts: f(window, rows) for every window, with the tokens of each expert.
  void visit_experts(std::size_t node,
                     const std::function<void(std::size_t window, const ExpertRows& rows)>& f);
  /// After run_to(the last node): f(window, token, logits) for tokens [first, window) of each
  /// window.
  void visit_logits(std::size_t first,
                    const std::function<void(std::size_t window, std::size_t token,
                                             std::span<const float> logits)>& f);

  /// Runs nodes up to `node` a window at a time and calls f(window) there. Runs the node, too, if
  /// the stream then has no more to keep than between two layers.
  void visit(std::size_t node, const std::function<void(std::size_t window)>& f);
  /// Returns the next node if visit(node, f) runs this one, else this one.
  [[nodiscard]] std::size_t place_after(std::size_t node) const;
  /// Rows of a value in the window that runs: [rows][width].
  [[nodiscard]] std::span<const float> rows_of_window(ValueId value);

  /// Runs nodes from position() to `end` a window at a time and keeps nothing. The stream must stay
  /// at its position meanwhile.
  class Preview {
   public:
    Preview(LayerStream& stream, std::size_t end);
    ~Preview();
    Preview(const Preview&) = delete;
    Preview& operator=(const Preview&) = delete;
    void run(std::size_t window);

   private:
    LayerStream& stream_;
    std::size_t end_;
    std::unique_ptr<FloatWeights> weights_;
  };

 private:
  void run_part(
      std::size_t end, std::size_t visited,
      const std::function<void(std::size_t window)>& f = [](std::size_t) {});
  [[nodiscard]] bool read_later(std::size_t router, std::size_t end) const;
  [[nodiscard]] std::size_t width_at(std::size_t node) const;
  void plan_window(std::size_t window);
  void load(std::size_t window, ValueId id);
  void save(std::size_t window, const std::vector<bool>& live, const std::vector<bool>& fixed);
  [[nodiscard]] std::vector<bool> live_at(std::size_t node) const;
  [[nodiscard]] std::size_t router_of(
      std::size_t node) const;  // the router of experts; otherwise the node
  [[nodiscard]] std::optional<std::size_t> past_router() const;
  void run_nodes(std::size_t begin, std::size_t end);

  const CalibrationTokens& tokens_;
  Graph graph_;
  KvPool pool_;
  GraphParts parts_;
  std::vector<PageTables> pages_;  // one, or one for each window if layers share keys
  Executor executor_;
  BatchPlan plan_;
  std::size_t position_ = 0;
  std::vector<std::size_t> widths_;       // floats of a token that are kept before each node
  std::size_t between_layers_ = 0;        // the largest of them at the beginning of a layer
  std::vector<std::vector<float>> kept_;  // by value; empty: nothing reads it later
  std::vector<bool> loaded_;              // by value: a node from position() on reads it
};

}  // namespace cria
