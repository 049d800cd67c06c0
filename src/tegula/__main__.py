"""`python -m tegula`: the command line."""

from tegula.cli import main

if __name__ == "__main__":
    main(prog_name="tegula")
