"""The public tile tests and examples of another implementation of the language, run with Tegula in its place."""
