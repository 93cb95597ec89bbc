/* fastqps request ring: one producer, two consumers, every load and store a step of its own, anybody killed anywhere.
 *
 * core/ring.h and Claimer::claim (core/claimer.h). Proves what protocol.pml folds into one step: a consumer whose CAS on
 * head succeeds holds exactly the entries that were published at those positions, although the producer may overwrite
 * entries while they are being read. Entries are published in batches: several under one store of tail.
 */
#ifndef CAP
#define CAP 2            /* entries */
#endif
#ifndef N
#define N 5              /* entries published in all: the ring wraps */
#endif
#ifndef K
#define K 2              /* entries per claim, at most */
#endif
#ifndef KC
#define KC 1             /* consumers killed, at most this often */
#endif
#ifndef KP
#define KP 1             /* producers killed, at most this often */
#endif
#ifndef IDX
#define IDX 16           /* positions count modulo this: 16 never wraps here; 4 shows why the real ones have 64 bits */
#endif
#ifndef MUT
#define MUT 0            /* a deliberate mistake, see check.sh */
#endif

byte head, tail;         /* head: CAS by consumers, and by a new producer; tail: the producer */
byte e[CAP];             /* entries; the k-th entry ever published has the value k+1 */
bit  kc[2], kp;          /* killed */
byte sent;               /* ghost: entries published */
byte at[IDX];            /* ghost: which entry was last published at this position */
byte taken[N+1];         /* ghost: how often each entry was consumed */
#define DIST(a,b) ((a + IDX - (b)) % IDX)
#define PLUS(a,n) (((a) + (n)) % IDX)

proctype Consumer(bit me)
{
  byte h, t, n, i, c[K];
start:
  {
    do
    :: head != tail || sent < N ->
       t = tail;                                                /* seq_cst; before head, as in ring_waiting() */
       h = head;                                                /* acquire */
       if
       :: DIST(t,h) == 0 || DIST(t,h) > CAP -> n = 0
       :: DIST(t,h) > 0 && DIST(t,h) <= CAP -> n = 1
       :: DIST(t,h) > 1 && DIST(t,h) <= CAP && K > 1 -> n = 2
       fi;
       t = 0;
       if
       :: n > 0 ->
#if MUT == 3
          atomic { if :: head == h -> head = PLUS(h,n) :: else -> n = 0 fi };          /* mistake: claim, then read */
#endif
          i = 0;
          do
          :: i < n -> c[i] = e[(PLUS(h,i)) % CAP]; i++          /* relaxed loads */
          :: i == n -> i = 0; break
          od;
          atomic {
#if MUT != 3
            if :: head == h -> head = PLUS(h,n) :: else -> n = 0 fi;                   /* CAS, release */
#endif
            do
            :: i < n -> assert(c[i] == at[PLUS(h,i)]); taken[c[i]]++; assert(taken[c[i]] == 1); i++
            :: else -> break
            od }
       :: else
       fi;
       d_step { h = 0; n = 0; i = 0; c[0] = 0; c[K-1] = 0 }
    od
  } unless { kc[me] }
  d_step { h = 0; t = 0; n = 0; i = 0; c[0] = 0; c[K-1] = 0; kc[me] = 0 };
  goto start
}

active proctype Producer()                                      /* RingProducer: push() … push(), publish() */
{
  byte c, n;                                                    /* c: head as last seen */
start:
  {
    do                                                          /* Slab::adopt(): empty what the predecessor published */
    :: atomic { head != tail -> head = tail }                   /* CAS: tail has no other writer */
    :: head == tail -> c = head; break
    od;
    do
    :: sent < N ->
       if
       :: DIST(tail,c) < CAP -> skip
       :: DIST(tail,c) >= CAP -> c = head                       /* acquire: the entries before it have been read */
       fi;
       if
       :: DIST(tail,c) < CAP ->
          n = 0;
#if MUT == 17
          atomic { at[tail] = sent+1; sent++; tail = PLUS(tail,1) }; e[DIST(tail,1) % CAP] = sent     /* mistake: tail first */
#else
          e[tail % CAP] = sent+1;
          if                                                    /* perhaps a second one under the same tail store */
          :: DIST(tail,c)+1 < CAP && sent+1 < N -> e[(PLUS(tail,1)) % CAP] = sent+2; n = 2
          :: n = 1
          fi;
          atomic {
            at[tail] = sent+1; if :: n == 2 -> at[PLUS(tail,1)] = sent+2 :: else fi;
            sent = sent+n; tail = PLUS(tail,n); n = 0 }         /* seq_cst */
#endif
       :: else
       fi
    :: sent == N -> break
    od
  } unless { kp }
  if
  :: kp -> d_step { c = 0; n = 0; kp = 0 }; goto start
  :: else
  fi
}

active proctype Killer()
{
  byte n = KC, m = KP;
  do
  :: d_step { n > 0 && !kc[0] -> n--; kc[0] = 1 }
  :: d_step { n > 0 && !kc[1] -> n--; kc[1] = 1 }
  :: d_step { m > 0 && !kp && sent < N -> m--; kp = 1 }
  :: d_step { n = 0; m = 0 } -> break
  od
}

active proctype Judge()                                         /* runs when nothing else can */
{
  timeout -> assert(sent == N && head == tail);
#if KC == 0 && KP == 0
  for (sent : 1 .. N) { assert(taken[sent] == 1) }
#endif
}

init { atomic { run Consumer(0); run Consumer(1) } }
