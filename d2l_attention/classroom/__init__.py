"""What instructors call: a chapter as an assignment, its grading by nbgrader, the class report."""
