"""The engine file: layout, packing, atomic writer, checking reader. Knows no graph."""
