find_package(nlohmann_json 3.11 REQUIRED)
slipstream_test(text_utf8_test text_utf8_test.cc ROOMS text)
slipstream_test(text_json_cursor_test text_json_cursor_test.cc ROOMS text)
slipstream_test(text_split_test text_split_test.cc ROOMS text)
slipstream_test(text_tokenizer_test text_tokenizer_test.cc ROOMS text)
slipstream_test(text_errors_test text_errors_test.cc ROOMS text)
# These two change tokenizer files before they load them.
target_link_libraries(text_tokenizer_test PRIVATE nlohmann_json::nlohmann_json)
target_link_libraries(text_errors_test PRIVATE nlohmann_json::nlohmann_json)
