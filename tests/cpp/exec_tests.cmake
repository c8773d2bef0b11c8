slipstream_test(exec_numerics_test exec_numerics_test.cc ROOMS core)
    slipstream_test(exec_gemm_test exec_gemm_test.cc ROOMS core pack engine exec)
        slipstream_test(exec_rows_test exec_rows_test.cc ROOMS core pack engine exec)
            slipstream_test(exec_attention_test exec_attention_test.cc ROOMS core pack engine exec)
