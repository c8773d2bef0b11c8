slipstream_test(sched_policy_test sched_policy_test.cc ROOMS sched core)
