// An engine whose other parts are on other ranks, as rank 0 holds it.
#pragma once

#include "engine/distribute/leader.h"

namespace cria {

class DistributedEngine {
 public:
  DistributedEngine(Leader& leader, std::uint64_t id) : leader_(leader), id_(id) {}
  ~DistributedEngine() { leader_.close_engine(id_); }
  DistributedEngine(const DistributedEngine&) = delete;
  DistributedEngine& operator=(const DistributedEngine&) = delete;

  // As the Leader's.
  Leader::Turn forward(const BatchPlan& plan, bool observed) {
    return leader_.forward(id_, plan, observed);
  }
  Leader::Turn logits(std::size_t begin, std::size_t end) {
    return leader_.logits(id_, begin, end);
  }
  Leader::Turn copy_page(std::size_t group, PageId from, PageId to) {
    return leader_.copy_page(id_, group, from, to);
  }

 private:
  Leader& leader_;
  const std::uint64_t id_;
};

}  // namespace cria
