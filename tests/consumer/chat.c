/* chat MODEL: a conversation in the terminal. Ctrl-C stops an answer; an empty line or EOF ends. */
#define _POSIX_C_SOURCE 200809L
#include <cria/cria.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };
static cria_message talk[MOST]; /* user and assistant in turns */
static size_t n_talk;
static cria_engine engine;

static void check(cria_status status) {
  if (status >= 0) return;
  fprintf(stderr, "chat: %s\n", cria_last_error());
  exit(1);
}

static void say(const char* role, const char* text) {
  char* const copy = malloc(strlen(text) + 1);
  if (copy == NULL || n_talk == MOST) exit(1);
  talk[n_talk++] = (cria_message){role, strcpy(copy, text), NULL};
}

/* A thread that waits for Ctrl-C: functions of the library are not for signal handlers. */
static void* wait_for_interrupts(void* signals) {
  for (int signal; sigwait(signals, &signal) == 0;) cria_engine_cancel(engine);
  return NULL;
}

static void answer(void) {
  cria_request request = CRIA_STRUCT(cria_request);
  cria_piece piece = CRIA_STRUCT(cria_piece);
  cria_result result = CRIA_STRUCT(cria_result);
  cria_answer written;
  request.messages = talk;
  request.n_messages = n_talk;
  check(cria_answer_begin(engine, &request, &written));
  cria_status status;
  while ((status = cria_answer_next(written, &piece)) == CRIA_OK) {
    if (piece.part == CRIA_PART_ANSWER) fwrite(piece.text, 1, piece.text_size, stdout);
    fflush(stdout);
  }
  check(status);
  check(cria_answer_result(written, &result));
  say("assistant", result.text);
  check(cria_answer_free(written));
  puts("");
}

int main(int argc, char** argv) {
  char line[4096];
  cria_model model;
  pthread_t waiting;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  check(cria_model_load(argc > 1 ? argv[1] : "model.gguf", NULL, &model));
  check(cria_engine_create(model, NULL, &engine));
  if (pthread_create(&waiting, NULL, wait_for_interrupts, &signals) == 0) pthread_detach(waiting);
  while (fputs("> ", stdout), fflush(stdout), fgets(line, sizeof line, stdin) != NULL && line[0] != '\n') {
    line[strcspn(line, "\n")] = '\0';
    say("user", line);
    answer();
  }
  return 0;
}
