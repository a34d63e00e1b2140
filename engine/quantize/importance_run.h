// Computes an importance matrix: evaluates a text window by window and sums up the squares of what
// every weight matrix is multiplied by.
//
//   ImportanceRun run(session, perplexity_tokens(*model, bytes), {});
//   while (run.next()) continue;
//   run.result("text").write("model.imatrix.gguf");
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/evaluate/text_windows.h"
#include "engine/quantize/importance.h"
#include "engine/session.h"

namespace cria {

/// The sums do not depend on threads or batches: they are in double, token after token.
class ImportanceRun {
 public:
  /// Watches the session's nodes while it lives. Session and text outlive it; the session's context
  /// holds a window. Windows lie side by side, each begins with BOS where the model wants it.
  /// Throws as TextWindows.
  ImportanceRun(Session& session, std::span<const TokenId> text, const PerplexityOptions& windows);
  ~ImportanceRun();
  ImportanceRun(const ImportanceRun&) = delete;
  ImportanceRun& operator=(const ImportanceRun&) = delete;

  /// Called after each batch with the tokens evaluated in this window so far; false stops.
  using OnBatch = std::function<bool(std::size_t evaluated)>;
  /// Evaluates the next window. False if none was left or on_batch stopped it, which forgets that
  /// window. Throws Error as Session::eval, and for activations that are not finite, naming the
  /// node.
  bool next(const OnBatch& on_batch = {});

  [[nodiscard]] std::size_t windows() const { return windows_.size(); }
  [[nodiscard]] std::size_t done() const { return done_; }
  [[nodiscard]] ImportanceMatrix result(const std::string& dataset) const;

  /// Writes down where the run stands / goes on from there, to the same sums to the bit. load()
  /// throws Error for the state of another model, text, or other windows.
  void save(const std::string& path) const;
  void load(const std::string& path);

 private:
  /// A matrix, or one of the experts' where each has a tensor of its own.
  struct Reader {
    std::string tensor;
    std::optional<std::size_t> expert = {};
    bool operator==(const Reader&) const = default;
  };
  /// What one node computes and several matrices read. With experts there are sums for each, and
  /// behind them the tokens that each has got.
  struct Source {
    const Node* node;
    std::vector<Reader> readers;
    std::size_t width, experts;  ///< 0: all read all tokens
    bool gathered;  ///< experts take rows of a value that was written before they were chosen
    std::vector<double> sums, window;  ///< of the windows done, of the current one
  };
  void add_source(std::size_t place, const Node& node, std::vector<Reader> readers,
                  std::size_t width, std::size_t experts, bool gathered);
  void add_expert_sources(std::size_t place, std::size_t writer);
  void observe(const Node& node, std::span<const float> values, std::size_t width);
  void add_experts(Source& source, std::span<const float> values);
  [[nodiscard]] std::uint64_t identity() const;

  Session& session_;
  std::span<const TokenId> text_;
  PerplexityOptions options_;
  TextWindows windows_;
  std::vector<Source> sources_;
  std::vector<std::vector<std::size_t>>
      sources_of_;           // by the place in the graph of the node that is observed
  std::vector<bool> kept_;   // by place: values that experts gather later
  std::vector<float> rows_;  // the last such values
  std::size_t done_ = 0;
};

}  // namespace cria
