// Delays MPI messages between ranks of one machine as a slower network would, for kernels without
// tc netem. run.sh compiles and preloads it. $SLOW_LINK is LAT_US,GBPS; $SLOW_LINK_TABLE is an
// empty file that all ranks share: each writes there when it starts to send.
#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

// MPI sends up to kEager bytes without a handshake.
enum { kSlots = 256, kRanks = 64, kEager = 64 << 10, kMaxPending = 2 };

static _Atomic double (*sent)[kRanks];  // [operation % kSlots][rank]: seconds
static double latency, seconds_per_byte;
static int rank, size;

// Pending operations: cria has kMaxPending at a time and waits in order.
struct operation {
  MPI_Request request;
  unsigned long number;
  int gather, arrived, active;
  double begun, bytes, longest;  // bytes from all others, and from one of them
  double due;
};
static struct operation operations[kMaxPending];
static unsigned long begun, ended;
static double busy;  // the link carries earlier messages until then

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct operation* begin(int gather) {
  if (sent == NULL) {
    const char* const link = getenv("SLOW_LINK");
    const char* const table = getenv("SLOW_LINK_TABLE");
    double microseconds = 0, gbits = 0;
    const int file = table == NULL ? -1 : open(table, O_RDWR);
    if (link == NULL || sscanf(link, "%lf,%lf", &microseconds, &gbits) != 2 || file < 0 ||
        ftruncate(file, sizeof(*sent) * kSlots) != 0) {
      fprintf(stderr, "slow_link: set SLOW_LINK and SLOW_LINK_TABLE\n");
      _exit(2);
    }
    latency = 1e-6 * microseconds;
    seconds_per_byte = 8e-9 / gbits;
    sent = mmap(NULL, sizeof(*sent) * kSlots, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  struct operation* const it = &operations[begun % kMaxPending];
  *it = (struct operation){.number = ++begun, .gather = gather, .active = 1, .begun = seconds()};
  atomic_store(&sent[it->number % kSlots][rank], it->begun);
  return it;
}

static double sent_by(const struct operation* it, int other) {
  return atomic_load(&sent[it->number % kSlots][other]);
}

// Steps down a binary tree from rank 0.
static int depth(void) {
  int steps = 0;
  for (int r = rank; r != 0; r >>= 1) ++steps;
  return steps;
}

// Time of arrival of the last byte.
static double due(const struct operation* it) {
  if (!it->gather)
    return rank == 0 ? 0 : sent_by(it, 0) + depth() * latency + it->bytes * seconds_per_byte;
  double last = 0;
  for (int r = 0; r < size; ++r) {
    if (r == rank) continue;
    double arrives = sent_by(it, r) + latency;
    if (it->longest > kEager) arrives = (arrives > it->begun ? arrives : it->begun) + 2 * latency;
    if (arrives > last) last = arrives;
  }
  return (last > busy ? last : busy) + it->bytes * seconds_per_byte;
}

int MPI_Iallgatherv(const void* from, int count, MPI_Datatype type, void* to, const int counts[],
                    const int places[], MPI_Datatype to_type, MPI_Comm all, MPI_Request* request) {
  struct operation* const it = begin(1);
  for (int r = 0; r < size; ++r) {
    if (r != rank) it->bytes += counts[r];
    if (counts[r] > it->longest) it->longest = counts[r];
  }
  const int result = PMPI_Iallgatherv(from, count, type, to, counts, places, to_type, all, request);
  it->request = *request;
  return result;
}

int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm all,
               MPI_Request* request) {
  struct operation* const it = begin(0);
  it->bytes = count;
  const int result = PMPI_Ibcast(data, count, type, root, all, request);
  it->request = *request;
  return result;
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  struct operation* const it = &operations[ended % kMaxPending];
  if (!it->active || (!it->arrived && *request != it->request))
    return PMPI_Test(request, done, status);
  if (!it->arrived) {
    const int result = PMPI_Test(request, done, status);
    if (result != MPI_SUCCESS || !*done) return result;
    it->arrived = 1;
    it->due = busy = due(it);
  }
  *done = seconds() >= it->due;
  if (*done) {
    it->active = 0;
    ++ended;
  }
  return MPI_SUCCESS;
}
