#include "tools/terminal/answer_view.h"

#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"
#include "tools/terminal/width.h"

namespace cria::tools {
namespace {

WordWrap wrap_for_stdout() {
  return WordWrap([] { return terminal_columns(stdout); });
}

}  // namespace

AnswerView::AnswerView(bool for_person) : for_person_(for_person), wrap_(wrap_for_stdout()) {}

void AnswerView::think(std::string_view piece) {
  if (!thinking_ && !shows_styles(stdout)) write_stdout("[thinking]\n");
  thinking_ = true;
  write(piece, true);
}

void AnswerView::answer(std::string_view piece) {
  end_thinking();
  write(piece, false);
  if (!piece.empty()) in_line_ = piece.back() != '\n';
}

void AnswerView::call(std::string_view line) {
  end_thinking();
  if (for_person_) write_stdout(wrap_.finish());
  write_stdout((in_line_ ? "\n" : "") + for_stream(stdout, line) + "\n");
  in_line_ = false;
  flush_stdout();
}

void AnswerView::finish() {
  end_thinking();
  if (for_person_) write_stdout(wrap_.finish());
  wrap_ = wrap_for_stdout();
  in_line_ = false;
  flush_stdout();
}

void AnswerView::write(std::string_view text, bool dimmed) {
  std::string shown = for_stream(stdout, text);
  if (for_person_) shown = wrap_.push(shown);
  if (!shown.empty()) write_stdout(dimmed ? styled(stdout, Style::Dim, shown) : shown);
  flush_stdout();
}

void AnswerView::end_thinking() {
  if (!thinking_) return;
  thinking_ = false;
  if (for_person_) write_stdout(styled(stdout, Style::Dim, wrap_.finish()));
  wrap_ = wrap_for_stdout();
  write_stdout(shows_styles(stdout) ? "\n\n" : "\n[end of thinking]\n\n");
}

}  // namespace cria::tools
