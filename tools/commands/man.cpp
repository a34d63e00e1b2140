// `cria man`: the manual page in troff, from the command line's own declarations.
#include <cstdio>
#include <cstdlib>

#include "tools/cli/command_line.h"
#include "tools/commands/commands.h"
#include "tools/terminal/terminal.h"

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

std::string flag_text(const Flag& flag) {
  const std::string value = flag.value_name();
  std::string text = ".TP\n";
  if (!flag.is_argument()) text += "\\fB" + troff(joined(flag.all_names())) + "\\fR";
  if (!value.empty()) text += (flag.is_argument() ? "\\fI" : " \\fI") + troff(value) + "\\fR";
  text += "\n" + troff(flag.help);
  if (!flag.target.default_text.empty()) text += " [" + troff(flag.target.default_text) + "]";
  return text + "\n";
}

std::string command_text(const Command& command) {
  std::string text = ".SS cria " + troff(command.name) + "\n" + troff(command.summary) + ".\n";
  for (const Flag& flag : command.flags) text += flag_text(flag);
  constexpr std::size_t kColumns = 72;  // 80 less the indent
  if (!command.notes.empty())
    text += ".PP\n.nf\n" + troff(footer_text(command.notes, kColumns)) + "\n.fi\n";
  return text;
}

using Entries = std::initializer_list<std::pair<const char*, const char*>>;

std::string section(const std::string& heading, Entries entries) {
  std::string text = ".SH " + heading + "\n";
  for (const auto& [name, help] : entries)
    text += std::string(".TP\n.B ") + troff(name) + "\n" + troff(help) + "\n";
  return text;
}

constexpr Entries kVariables = {
    {"CRIA_MODEL, CRIA_THREADS, ...",
     "the value of an option that is not on the command line: CRIA_ and its long name in capitals "
     "(see cria "
     "config)"},
    {"CRIA_CONFIG",
     "the configuration file (default: $XDG_CONFIG_HOME/cria/config.toml, else "
     "~/.config/cria/config.toml)"},
    {"CRIA_MODELS", "directories with models for cria list and -m, separated by colons"},
    {"HF_HUB_CACHE, OLLAMA_MODELS",
     "Hugging Face's cache and ollama's store, if not in their usual places"},
    {"CRIA_ISA", "the instruction set to use instead of the best (see cria inspect --cpu)"},
    {"NO_COLOR", "no colours, if set"},
    {"XDG_STATE_HOME", "directory of cria/history and cria/tuned.json (default: ~/.local/state)"},
};

constexpr Entries kFiles = {
    {"~/.config/cria/config.toml", "values of options and presets; cria config shows its form"},
    {"~/.local/state/cria/history", "the lines typed in cria chat"},
    {"~/.local/state/cria/tuned.json", "the options that cria bench --tune --remember has found"},
    {"/etc/cria/serve.env",
     "options of the systemd unit cria-serve: CRIA_MODEL=... and so on, one per line"},
};

constexpr const char* kSeveralMachines =
    ".SH SEVERAL MACHINES\n.nf\nmpirun \\-n 4 \\-\\-hostfile hosts \\-\\-bind\\-to none cria run "
    "\\-m FILE "
    "...\n.fi\n"
    "Each process computes and loads its part of the model. The answer is byte for byte that of "
    "one "
    "machine. The program and the model file have the same paths on every machine. See "
    "\\-\\-shares and "
    "\\-\\-rank\\-timeout. Needs Open MPI or MPICH (the module cria_mpi.so; in Debian the package "
    "cria\\-mpi).\n.PP\n"
    "If a machine disappears from the network, Open MPI's mpirun itself takes eight minutes to "
    "notice, unless it has these options:\n.PP\n.nf\n"
    "\\-\\-mca oob_tcp_keepalive_time 5\n\\-\\-mca oob_tcp_keepalive_intvl 2\n"
    "\\-\\-mca oob_tcp_keepalive_probes 3\n.fi\n";

constexpr Entries kExitCodes = {
    {"0", "done"},
    {"1", "bad data or a failed run"},
    {"2", "wrong usage"},
    {"129", "the terminal is gone"},
    {"130", "stopped by Ctrl-C"},
    {"141", "stdout was closed (SIGPIPE)"},
    {"143", "stopped by SIGTERM"},
};

constexpr const char* kSeeAlso =
    ".SH SEE ALSO\nmpirun(1), numactl(8); README.md in the documentation of the package cria\n";

std::string command_page(const Command& command) {
  return ".TH CRIA\\-" + troff(command.name) +
         " 1 \"\" \"cria " CRIA_VERSION "\"\n.SH NAME\ncria\\-" + troff(command.name) + " \\- " +
         troff(command.summary) + "\n.SH SYNOPSIS\n.B cria " + troff(command.name) +
         "\n[\\fIOPTION\\fR]...\n.SH OPTIONS\n" + command_text(command) +
         section("EXIT STATUS", kExitCodes) + kSeeAlso;
}

/// Shows a page with man, which pages and wraps it. False if there is no man.
bool shown_by_man(const std::string& page) {
  if (std::system("command -v man > /dev/null") != 0) return false;
  std::FILE* const man = popen("man -l -", "w");
  if (man == nullptr) return false;
  std::fwrite(page.data(), 1, page.size(), man);
  return pclose(man) == 0;
}

std::string man_page(const Program& program) {
  std::string text = ".TH CRIA 1 \"\" \"cria " CRIA_VERSION
                     "\"\n"
                     ".SH NAME\ncria \\- run LLaMA\\-family language models on ordinary CPUs\n"
                     ".SH SYNOPSIS\n.B cria\n.I SUBCOMMAND\n[\\fIOPTION\\fR]...\n"
                     ".SH DESCRIPTION\n" +
                     troff(program.description) + "\n" + troff(program.notes) +
                     "\n.SH SUBCOMMANDS\n";
  for (const Command& command : program.commands) text += command_text(command);
  return text + kSeveralMachines + section("ENVIRONMENT", kVariables) + section("FILES", kFiles) +
         section("EXIT STATUS", kExitCodes) + kSeeAlso;
}

}  // namespace

void add_man(Program& program) {
  Command& command = program.add("man", "Show the manual page");
  auto name = std::make_shared<std::string>();
  command.add({{"COMMAND", "", "only this command's page", into::text(*name)}});
  command.notes =
      "On a terminal the page is shown by man; elsewhere its source (troff) is printed.\n\n"
      "Examples:\n  cria man\n  cria man run\n  cria man > cria.1";
  command.run = [&program, name] {
    const Command* const one = name->empty() ? nullptr : program.find(*name);
    if (!name->empty() && one == nullptr) throw UsageError(unknown_command(program, *name));
    const std::string page = one == nullptr ? man_page(program) : command_page(*one);
    if (!is_terminal(stdout) || !shown_by_man(page)) write_stdout(page);
    return 0;
  };
}

}  // namespace cria::tools
