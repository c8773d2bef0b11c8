slipstream_test(pack_n16k4_test pack_n16k4_test.cc ROOMS core pack)
slipstream_test(pack_hash_test pack_hash_test.cc ROOMS core pack)
