slipstream_test(kv_manager_test kv_manager_test.cc ROOMS kv core)
    slipstream_test(kv_cache_model_test kv_cache_model_test.cc ROOMS kv core)
slipstream_test(kv_cache_test kv_cache_test.cc ROOMS kv core)
slipstream_test(kv_image_test kv_image_test.cc ROOMS kv core)
