// What the shared library exports: everything that is not marked has hidden visibility.
#pragma once

#define SLIPSTREAM_API __attribute__((visibility("default")))
/// For what is declared inside an exported class and is not part of the API.
#define SLIPSTREAM_LOCAL __attribute__((visibility("hidden")))
