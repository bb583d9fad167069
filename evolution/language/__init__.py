"""The language of programs: operations, trees and their parsing, register machines, and variation."""
