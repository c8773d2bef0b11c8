slipstream_test(kv_manager_test kv_manager_test.cc ROOMS kv core)
