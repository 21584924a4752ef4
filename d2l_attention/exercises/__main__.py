"""``python -m d2l_attention.exercises``: what it does is in ``classroom``, for instructors."""

from d2l_attention.classroom.__main__ import main

if __name__ == "__main__":
    main()
