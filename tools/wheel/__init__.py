"""Plimsoll, a C++ program, as a Python package that installs it."""
