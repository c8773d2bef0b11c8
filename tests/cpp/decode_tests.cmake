find_package(nlohmann_json 3.11 REQUIRED)
slipstream_test(decode_sampler_test decode_sampler_test.cc ROOMS decode core)
slipstream_test(decode_pipeline_test decode_pipeline_test.cc ROOMS decode core)
slipstream_test(decode_logprobs_test decode_logprobs_test.cc ROOMS decode core)
slipstream_test(decode_stop_matcher_test decode_stop_matcher_test.cc ROOMS decode core)
slipstream_test(decode_beam_search_test decode_beam_search_test.cc ROOMS decode core)
target_link_libraries(decode_beam_search_test PRIVATE nlohmann_json::nlohmann_json)
target_compile_definitions(decode_beam_search_test PRIVATE
  SLIPSTREAM_BEAM_REFERENCE="${PROJECT_SOURCE_DIR}/tests/data/beam_reference.json")
