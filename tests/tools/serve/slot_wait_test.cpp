#include "tools/serve/service/service.h"

#include <gtest/gtest.h>

namespace cria::serve {
namespace {

using Running = std::vector<Scheduler::Progress>;

TEST(ServeSlotWait, IsOneSecondBeforeAnythingIsKnown) {
  EXPECT_EQ(SlotWait(128).seconds(Running{{.to_read = 0, .drawn = 0, .may_draw = 800}}, 0), 1);
}

TEST(ServeSlotWait, IsWhatTheShortestAnswerMayStillNeed) {
  SlotWait wait(100);
  for (int i = 0; i < 3; ++i) wait.stepped(0.5);
  const Running running{{.to_read = 0, .drawn = 5, .may_draw = 21},
                        {.to_read = 400, .drawn = 0, .may_draw = 5}};
  EXPECT_EQ(wait.seconds(running, 0), 5);   // 9 steps: four for the prompt
  EXPECT_EQ(wait.seconds(running, 1), 11);  // 21 steps
  EXPECT_EQ(wait.seconds(running, 2), SlotWait::kMost);
  EXPECT_EQ(wait.seconds(Running{{.to_read = 0, .drawn = 0, .may_draw = 8000}}, 0),
            SlotWait::kMost);
  EXPECT_EQ(wait.seconds(Running{{.to_read = 0, .drawn = 9, .may_draw = 0}}, 0), 1);
}

TEST(ServeSlotWait, LearnsHowLongAnswersAreAndHowFast) {
  SlotWait wait(128);
  wait.stepped(0.5);
  wait.ended(20);
  EXPECT_EQ(wait.seconds(Running{{.to_read = 0, .drawn = 4, .may_draw = 4000}}, 0), 10);
  EXPECT_EQ(wait.seconds(Running{{.to_read = 0, .drawn = 30, .may_draw = 4000}}, 0),
            15);  // longer than others
  EXPECT_EQ(wait.seconds(Running{{.to_read = 0, .drawn = 30, .may_draw = 6}}, 0), 3);
  for (int i = 0; i < 200; ++i) wait.stepped(0.09), wait.ended(50);
  EXPECT_EQ(wait.seconds(Running{{.to_read = 0, .drawn = 4, .may_draw = 4000}}, 0), 5);
}

}  // namespace
}  // namespace cria::serve
