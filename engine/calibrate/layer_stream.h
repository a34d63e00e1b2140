// A model that is run a few nodes at a time over all windows of a text, so that its weights can
// change between nodes. Values that later nodes read are stored for every window. Weights are
// float32.
#pragma once

#include <memory>
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
  /// Runs nodes up to `end`.
  void run_to(std::size_t end);
  /// Rows of a value that a later node reads, or changes: of all tokens, [rows][width].
  [[nodiscard]] std::span<const float> rows(ValueId value) const { return kept_[value]; }
  /// For a node over experts: f(window, rows) for every window, with the tokens of each expert.
  void visit_experts(std::size_t node,
                     const std::function<void(std::size_t window, const ExpertRows& rows)>& f);
  /// After run_to(the last node): f(window, token, logits) for tokens [first, window) of each
  /// window.
  void visit_logits(std::size_t first,
                    const std::function<void(std::size_t window, std::size_t token,
                                             std::span<const float> logits)>& f);
  /// Bytes of what it keeps.
  [[nodiscard]] std::size_t bytes() const;

 private:
  void run_part(std::size_t end);
  void plan_window(std::size_t window);
  void load(std::size_t window);
  void save(std::size_t window, const std::vector<bool>& live, const std::vector<bool>& fixed);
  [[nodiscard]] std::vector<bool> live_at(std::size_t node) const;
  [[nodiscard]] std::size_t router_of(
      std::size_t node) const;  // the router of experts; otherwise the node
  void run_window(std::size_t window, std::size_t begin, std::size_t end);

  const CalibrationTokens& tokens_;
  Graph graph_;
  KvPool pool_;
  GraphParts parts_;
  std::vector<PageTables> pages_;  // one, or one for each window if layers share keys
  Executor executor_;
  BatchPlan plan_;
  std::size_t position_ = 0;
  std::vector<std::vector<float>> kept_;  // by value; empty: nothing reads it later
};

}  // namespace cria
