// Computes an importance matrix: evaluates a text window by window and sums the squared activations
// that multiply each weight matrix.
//
//   ImportanceRun run(session, perplexity_tokens(*model, bytes), {});
//   while (run.next()) continue;
//   run.result("text").write("model.imatrix.gguf");
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/evaluate/perplexity.h"
#include "engine/quantize/importance.h"

namespace cria {

/// The sums do not depend on threads or batches: doubles, token by token.
class ImportanceRun : public WindowRun {
 public:
  /// Observes the session's nodes. Session and text outlive this; the session's context must hold a
  /// window. Windows are adjacent and begin with BOS if the model has one. Throws as TextWindows.
  ImportanceRun(Session& session, std::span<const TokenId> text, const PerplexityOptions& windows);
  ~ImportanceRun();
  ImportanceRun(const ImportanceRun&) = delete;
  ImportanceRun& operator=(const ImportanceRun&) = delete;

  /// Evaluates the next window. False if none was left, or if on_batch stopped it, which discards
  /// the window. Throws Error as Session::eval, and for NaN or infinite activations, naming the
  /// node.
  bool next(const OnBatch& on_batch = {});

  [[nodiscard]] ImportanceMatrix result(const std::string& dataset) const;

  /// Saves the state; load() resumes it with the same bits. load() throws Error for the state of
  /// another model, text or other windows.
  void save(const std::string& path) const;
  void load(const std::string& path);

 private:
  /// A matrix, or one expert's matrix if each has a tensor.
  struct Reader {
    std::string tensor;
    std::optional<std::size_t> expert = {};
    bool operator==(const Reader&) const = default;
  };
  /// The output of a node that matrices read. With experts there are sums for each, followed by the
  /// tokens that each received.
  struct Source {
    const Node* node;
    std::vector<Reader> readers;
    std::size_t width, experts;        ///< experts 0: all read all tokens
    bool gathered;                     ///< experts read rows of a value from before the routing
    std::vector<double> sums, window;  ///< finished windows, current window
  };
  void add_source(std::size_t place, const Node& node, std::vector<Reader> readers,
                  std::size_t width, std::size_t experts, bool gathered);
  void add_expert_sources(std::size_t place, std::size_t writer);
  void observe(const Node& node, std::span<const float> values, std::size_t width);
  void add_experts(Source& source, std::span<const float> values);
  [[nodiscard]] std::uint64_t n_sums() const;

  static const StateKind kState;
  std::vector<Source> sources_;
  std::vector<std::vector<std::size_t>> sources_of_;  // by the observed node's index in the graph
  std::vector<bool> kept_;                            // by index: values that experts gather later
  std::vector<float> rows_;                           // the last such values
};

}  // namespace cria
