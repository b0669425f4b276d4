"""`python -m neardup_db`: the command `neardup`, where the folder of commands is not on the PATH, as often on Windows."""

from .cli import main

if __name__ == "__main__":
    main(prog_name="neardup")
