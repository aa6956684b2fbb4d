"""What is read from C++: declarations, counted loops, index polynomials, effects, dependences, reductions and types."""
