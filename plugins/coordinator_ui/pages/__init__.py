"""The addresses of the pages, their forms and lists."""
