"""The addresses of the pages, with their forms and lists."""
