// `cria man`: the manual page in troff, from the command line's own declarations.
#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/command_line.h"
#include "tools/options/help.h"
#include "tools/terminal/standard_output.h"

namespace cria::tools {
namespace {

std::string troff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string option_text(const OptionDescription& option) {
  std::string text = ".TP\n";
  if (!option.names.empty()) text += "\\fB" + troff(option.joined_names()) + "\\fR";
  if (!option.value.empty()) text += (option.names.empty() ? "\\fI" : " \\fI") + troff(option.value) + "\\fR";
  text += "\n" + troff(option.help);
  if (!option.default_value.empty()) text += " [" + troff(option.default_value) + "]";
  return text + "\n";
}

std::string command_text(const CommandDescription& command) {
  std::string text = ".SS cria " + troff(command.name) + "\n" + troff(command.help) + ".\n";
  for (const OptionDescription& option : command.options) text += option_text(option);
  constexpr std::size_t kColumns = 72;  // of 80, less the indent
  if (!command.footer.empty())
    text += ".PP\n.nf\n" + troff(footer_text(command.footer, kColumns)) + "\n.fi\n";
  return text;
}

std::string man_page(const CLI::App& app) {
  std::string text = ".TH CRIA 1 \"\" \"cria " CRIA_VERSION
                     "\"\n"
                     ".SH NAME\ncria \\- run LLaMA\\-family language models on ordinary CPUs\n"
                     ".SH SYNOPSIS\n.B cria\n.I SUBCOMMAND\n[\\fIOPTION\\fR]...\n"
                     ".SH DESCRIPTION\n" +
                     troff(app.get_description()) + "\n" + troff(app.get_footer()) + "\n.SH SUBCOMMANDS\n";
  for (const CommandDescription& command : describe_commands(app)) text += command_text(command);
  constexpr std::pair<const char*, const char*> kVariables[] = {
      {"CRIA_MODEL, CRIA_THREADS, ...",
       "the value of an option that is not typed: CRIA_ and its long name in capitals (see cria config)"},
      {"CRIA_CONFIG",
       "the configuration file (default: $XDG_CONFIG_HOME/cria/config.toml, else "
       "~/.config/cria/config.toml)"},
      {"CRIA_MODELS", "directories with models for cria list and -m, separated by colons"},
      {"HF_HUB_CACHE, OLLAMA_MODELS",
       "where Hugging Face and ollama keep theirs, if not where they usually do"},
      {"CRIA_ISA", "the instruction set to use instead of the best (see cria inspect --cpu)"},
      {"NO_COLOR", "no colours, if set"},
      {"XDG_STATE_HOME",
       "directory of cria/history, the lines typed in cria chat, and cria/tuned.json, what cria bench --tune "
       "remembers (default: ~/.local/state)"},
  };
  text +=
      ".SH SEVERAL MACHINES\n.nf\nmpirun \\-n 4 \\-\\-hostfile hosts \\-\\-bind\\-to none cria run \\-m FILE "
      "...\n.fi\n"
      "Each process computes and holds its part of the model; the answer has the bytes of one machine. "
      "Program and "
      "file lie under the same paths everywhere. See \\-\\-shares and \\-\\-rank\\-timeout. Needs Open MPI "
      "or MPICH "
      "(the module cria_mpi.so; in Debian the package cria\\-mpi).\n";
  text += ".SH ENVIRONMENT\n";
  for (const auto& [name, help] : kVariables)
    text += std::string(".TP\n.B ") + name + "\n" + troff(help) + "\n";
  text +=
      ".SH EXIT STATUS\n0: done. 1: bad data or a failed run. 2: wrong usage. 129: the terminal is gone. "
      "130: stopped by Ctrl\\-C. 143: "
      "by SIGTERM. "
      "141: nobody reads stdout any more.\n";
  return text;
}

}  // namespace

void add_man(CLI::App& app) {
  CLI::App* command = app.add_subcommand("man", "Print the manual page");
  command->footer("Example:\n  cria man | man -l -");
  on_run(command, [&app] {
    write_stdout(man_page(app));
    flush_stdout();
    return 0;
  });
}

}  // namespace cria::tools
