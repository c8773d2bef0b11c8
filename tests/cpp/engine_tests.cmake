slipstream_test(engine_file_test engine_file_test.cc ROOMS core pack engine)
slipstream_test(engine_manifest_test engine_manifest_test.cc ROOMS core pack engine)
slipstream_test(engine_corruption_test engine_corruption_test.cc ROOMS core pack engine)
