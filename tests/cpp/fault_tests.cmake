# slipstream_fault_test(NAME source): a test of the whole library whose allocations, system calls and
# thread starts can be made to fail (fault_injection.h).
function(slipstream_fault_test name source)
  slipstream_test(${name} ${source} ROOMS executor exec text decode sched kv engine pack core)
  target_sources(${name} PRIVATE fault_injection.cc)
  target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS})
  foreach(call open fstat mmap madvise)
    target_link_options(${name} PRIVATE LINKER:--wrap=${call})
  endforeach()
endfunction()

slipstream_fault_test(fault_answers_test fault_answers_test.cc)
slipstream_fault_test(fault_memory_test fault_memory_test.cc)
slipstream_fault_test(fault_system_test fault_system_test.cc)
slipstream_test(product_chat_test product_chat_test.cc ROOMS executor exec text decode sched kv engine pack core)
slipstream_test(product_test product_test.cc ROOMS executor exec text decode sched kv engine pack core)
