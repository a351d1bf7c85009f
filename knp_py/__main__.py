"""``python -m knp_py`` is ``knp``."""

from knp_py.cli.main import main

if __name__ == "__main__":
    main()
