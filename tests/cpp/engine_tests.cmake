slipstream_test(engine_file_test engine_file_test.cc ROOMS core pack engine)
slipstream_test(engine_manifest_test engine_manifest_test.cc ROOMS core pack engine)
slipstream_test(engine_corruption_test engine_corruption_test.cc ROOMS core pack engine)
# Engine is composed in the executor's room, but needs nothing else of it.
slipstream_test(engine_load_test engine_load_test.cc ROOMS core pack engine text)
target_sources(engine_load_test PRIVATE ${PROJECT_SOURCE_DIR}/runtime_cpp/src/executor/engine.cc)
