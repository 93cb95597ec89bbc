/* fastqps generators: tokens that a front door reads while a dispatcher makes them, and what deaths and stops do to them.
 *
 * Front() is Slab (core/slab.h) with a host that streams, Disp() is Claimer (core/claimer.h) with sequences that run
 * for some steps, Supervisor() is publish_death (core/supervise.h).
 *
 * protocol.pml has the request rings, strikes (what n_made tells after a death) and the front door's death at any
 * point, wake.pml has sleep and wake: here a QUEUED slot is claimed at once, a request runs again after every death, and
 * an idle process blocks on the condition itself. As there, one step has at most one effect that another process can see. A hint is visible when it is pushed: publish()
 * only makes that later, and a death before it is a death before the push. The last token is counted by n_made here;
 * the real dispatcher leaves it to DONE.
 *
 * A token is its request, its life (the seq under which it was made) and its place, so that no two are the same; the
 * real ones of two lives often are, which would hide that they were mixed.
 * Ghost state (verdict[], got[], got_life[]) is never read by the protocol.
 */
#ifndef S
#define S 1              /* slots */
#endif
#ifndef R
#define R 2              /* requests */
#endif
#ifndef N
#define N 2              /* tokens of a request */
#endif
#ifndef OCAP
#define OCAP (2*S)       /* entries of an output ring */
#endif
#ifndef KD
#define KD 1             /* dispatchers killed, at most this often */
#endif
#ifndef NC
#define NC 0             /* stops and cancels, at most this often */
#endif
#ifndef KF
#define KF 0             /* the front door dies between two turns, at most this often (protocol.pml: at any point) */
#endif
#ifndef QUIET
#define QUIET 0          /* 1: request 2 does not ask for progress: only its first token is counted, and nobody is told */
#endif
#ifndef ENDLESS
#define ENDLESS 0        /* 1: the last request never ends by itself; somebody cancels it, and its slot must come back */
#endif
#ifndef MUT
#define MUT 0            /* a deliberate mistake, see check.sh */
#endif

#define D 2              /* dispatchers */

#define FREE 0
#define QUEUED 1
#define CLAIMED 2
#define LAUNCHED 3
#define DONE 4
#define W(st,d,e,q) ((st) | ((d)<<3) | ((e)<<4) | ((q)<<8))
#define ST(w) ((w)&7)
#define OWN(w) (((w)>>3)&1)
#define EP(w) (((w)>>4)&15)
#define SQ(w) ((w)>>8)
#define HELD(w) (ST(w) == CLAIMED || ST(w) == LAUNCHED)
#define TOKEN(id,life,k) (((id)<<5) | ((life)<<2) | (k))

/* ---- shared memory ---- */
short sw[S];             /* slot state word */
byte  rq[S];             /* request payload                        (front door while FREE) */
byte  tok[S*N];          /* answer area: tokens                    (the owning dispatcher) */
byte  made[S];           /* n_made (the owning dispatcher; the front door when it queues the slot) */
byte  nval[S];           /* n_values                               (the owning dispatcher) */
byte  oh[D], ot[D], oe[D*OCAP];       /* output rings */
byte  ctl[D];            /* control ring, one entry: seq*S + slot + 1; 0: empty */
byte  dead[D], deaths;   /* supervisor */

/* ---- the kernel and the world ---- */
byte  live[D];
bit   kd[D], up[D];
byte  nxt, stops, gone;
bit   tick, expire;      /* ENDLESS: timer ticks; at the first one every deadline has passed */
#define TOLD(id) (!QUIET || (id) != 2)

/* ---- ghosts ---- */
#define OK 1
#define STOPPED 2        /* or cancelled, or expired */
#define INTERNAL 3
#define GONE 4           /* the front door died, and the client's connection with it */
byte  verdict[R+1];
byte  got[R+1], got_life[R+1];        /* tokens that the client has, and the life that they are of */
#define ANSWER(id,v) assert(verdict[id] == 0); verdict[id] = v

/* ------------------------------------------------------------------ dispatcher */
inline hint(limit) {
  d_step { if :: ot[me] - oh[me] < (limit) -> oe[me*OCAP + ot[me]%OCAP] = s; ot[me]++ :: else fi }   /* full: it is lost */
}

proctype Disp(byte me)
{
  byte e, s, k, q;
start:
  {
    e = live[me];
find:
    atomic {                                                    /* QUEUED(seq) -> CLAIMED */
      if
      :: ST(sw[0]) == QUEUED -> s = 0
#if S > 1
      :: ST(sw[1]) == QUEUED -> s = 1
#endif
      fi;
      q = SQ(sw[s]); sw[s] = W(CLAIMED,me,e,q) };
    d_step { assert(sw[s] == W(CLAIMED,me,e,q)); sw[s] = W(LAUNCHED,me,e,q) };
    do                                                          /* a step of the device: one more token */
#if ENDLESS
    :: k == N && rq[s] == R ->                                  /* further ones would be the same to everybody */
         if
         :: atomic { ctl[me] == q*S + s + 1 -> ctl[me] = 0 }; break
         :: atomic { ctl[me] != 0 && ctl[me] != q*S + s + 1 -> ctl[me] = 0 }
         fi
    :: k == N && rq[s] != R -> break
#else
    :: k == N -> break
#endif
    :: k < N ->
         if                                                     /* read_controls(): what runs and is not wanted ends here */
         :: atomic { ctl[me] == q*S + s + 1 || (ctl[me] != 0 && MUT == 8) -> ctl[me] = 0 }; break
         :: atomic { ctl[me] != 0 && ctl[me] != q*S + s + 1 && MUT != 8 -> ctl[me] = 0 }
         :: true                                                /* or it comes a moment later */
         fi;
#if MUT == 5
         made[s] = k+1;                                         /* mistake: counted before it is there */
         tok[s*N+k] = TOKEN(rq[s],q,k);
#else
         tok[s*N+k] = TOKEN(rq[s],q,k);                         /* plain write */
         if :: TOLD(rq[s]) || k == 0 -> made[s] = k+1 :: else fi;    /* release */
#endif
         if :: TOLD(rq[s]) -> hint(OCAP/2) :: else fi;          /* progress() */
         k++
    od;
    nval[s] = k;
    d_step { assert(sw[s] == W(LAUNCHED,me,e,q) || MUT == 7); sw[s] = W(DONE,me,e,q) };
#if MUT == 4
    hint(OCAP/2);                                               /* mistake: no room is kept for the ends */
#else
    hint(OCAP);
#endif
    d_step { s = 0; k = 0; q = 0 };
    goto find
  } unless { kd[me] }
  d_step { e = 0; s = 0; k = 0; q = 0 };
  d_step { up[me] -> up[me] = 0; kd[me] = 0 };
  goto start
}

/* ------------------------------------------------------------------ front door */
#define RELEASE(s) sw[s] = W(FREE,0,0,SQ(sw[s])); held[s] = 0; rec[s] = 0; rd[s] = 0; life[s] = 0; begun[s] = 0; rq[s] = 0; clear(s)
inline clear(s) { tok[s*N] = 0; tok[s*N+N-1] = 0; nval[s] = 0; if :: MUT == 6 :: else -> made[s] = 0 fi }

/* tokens rd..n-1 of the slot into the detokenizer. They cannot change once they are counted, so this is one step */
inline read_tokens(s, n) {
  do
  :: rd[s] < n ->
       assert(tok[s*N+rd[s]] == TOKEN(rec[s], tok[s*N+rd[s]] >> 2 & 7, rd[s]));        /* this request's, none left out */
       assert(rd[s] == 0 || life[s] == (tok[s*N+rd[s]] >> 2 & 7));                     /* of one life */
       life[s] = tok[s*N+rd[s]] >> 2 & 7; rd[s]++
  :: else -> break
  od
}
/* everything that was read goes to the client */
inline send(s) {
  assert(verdict[rec[s]] == 0);
  assert(got[rec[s]] == 0 || got_life[rec[s]] == life[s]);
  assert(got[rec[s]] <= rd[s]);
  got[rec[s]] = rd[s]; got_life[rec[s]] = life[s];
  if :: MUT == 2 :: else -> begun[s] = 1 fi                     /* mistake 2: nobody notes that the stream has begun */
}
inline finish(s) {
  if
  :: held[s] == 1 -> read_tokens(s, nval[s]); assert(rd[s] == N); send(s); ANSWER(rec[s], OK)
  :: else
  fi;
  RELEASE(s)
}
/* full: it works in vain until it is told again */
#define TELL(s) if :: ctl[OWN(sw[s])] == 0 -> ctl[OWN(sw[s])] = SQ(sw[s])*S + s + 1 :: else fi

/* Slab::cancel: the stop string has come, the client is gone, the deadline has passed */
inline cancel(s) {
  if
  :: ST(sw[s]) == QUEUED -> ANSWER(rec[s], STOPPED); RELEASE(s)
  :: HELD(sw[s]) -> ANSWER(rec[s], STOPPED);
#if MUT == 7
       RELEASE(s)                                               /* mistake: reuse at once */
#else
       held[s] = 2;
       TELL(s)
#endif
  :: else                                                       /* DONE: the answer is on its way */
  fi
}
inline settle(s) {
  atomic {
    if
    :: held[s] != 0 && ST(sw[s]) == DONE -> finish(s)
    :: held[s] != 0 && HELD(sw[s]) && EP(sw[s]) <= dead[OWN(sw[s])] ->
         if
         :: held[s] == 2 -> RELEASE(s)
         :: held[s] == 1 && ST(sw[s]) == LAUNCHED && begun[s] -> ANSWER(rec[s], INTERNAL); RELEASE(s)
         :: else ->
              if :: MUT == 1 :: else -> made[s] = 0 fi;         /* mistake 1: n_made is not reset at the requeue */
              if :: MUT == 3 :: else -> rd[s] = 0; life[s] = 0 fi;    /* restarted(). mistake 3: it goes on where it was */
              sw[s] = W(QUEUED,0,0,SQ(sw[s])+1)
         fi
    :: held[s] == 2 && HELD(sw[s]) && EP(sw[s]) > dead[OWN(sw[s])] && MUT != 10 -> TELL(s)
    :: held[s] == 2 && ST(sw[s]) == QUEUED -> RELEASE(s)        /* inherited from a dead front door */
    :: else
    fi }
}

proctype Front()
{
  byte held[S];          /* private: 0 free, 1 open, 2 answered but not yet given back by its dispatcher */
  byte rec[S], rd[S], life[S]; bit begun[S];    /* rd: tokens read, sent or held back (it could be a stop string's start) */
  byte seen, i, a, d;
  do
  :: atomic { nxt <= R && (held[0] == 0 || (S > 1 && held[S-1] == 0)) ->
       if :: held[0] == 0 -> a = 0 :: else -> a = S-1 fi;
       rec[a] = nxt; nxt++; held[a] = 1; rq[a] = rec[a];
       sw[a] = W(QUEUED,0,0,SQ(sw[a])+1); a = 0 }
  :: atomic { oh[0] != ot[0] -> d = 0 }; goto pop
  :: atomic { oh[1] != ot[1] -> d = 1 };
pop:
     atomic {                                                   /* load of the state: acquire */
       a = oe[d*OCAP + oh[d] % OCAP]; i = 0;
       if
       :: held[a] != 0 && ST(sw[a]) == DONE -> finish(a)
       :: (held[a] == 1 || (held[a] == 2 && MUT == 9)) && ST(sw[a]) == LAUNCHED -> i = 1
       :: else
       fi };
     if
     :: i == 1 ->
          atomic { i = 0;                                       /* progress(): load of n_made: acquire; its tokens */
            read_tokens(a, made[a]);
            if
            :: rd[a] > 0 -> send(a)
            :: held[a] == 1                                     /* or held back */
            :: stops < NC && rd[a] > 0 && held[a] == 1 -> stops++; send(a); cancel(a)   /* the stop string */
            fi }
     :: else
     fi;
     d_step { oe[d*OCAP + oh[d] % OCAP] = 0; oh[d]++; d = 0; a = 0 }       /* release store of head */
  :: atomic { stops < NC && (held[0] == 1 || (S > 1 && held[S-1] == 1)) -> stops++;
       if :: held[0] == 1 -> a = 0 :: S > 1 && held[S-1] == 1 -> a = S-1 fi;
       cancel(a); a = 0 }
  :: seen != deaths -> seen = deaths;
     settle(0);
#if S > 1
     settle(1)
#endif
#if ENDLESS
  :: tick ->
     atomic { if :: expire -> i = 0;
                do
                :: i < S && held[i] == 1 -> cancel(i); i++
                :: i < S && held[i] != 1 -> i++
                :: i == S -> i = 0; break
                od
              :: else fi };
     settle(0);
#if S > 1
     settle(1);
#endif
     tick = 0
#endif
#if KF
  :: atomic { gone < KF -> gone++; i = 0; a = 0; d = 0; seen = deaths;       /* Slab::adopt */
       oh[0] = ot[0]; oh[1] = ot[1];
       do
       :: i < S ->
            if :: held[i] == 1 -> verdict[rec[i]] = GONE :: else fi;
            if :: ST(sw[i]) != FREE -> held[i] = 2 :: else -> held[i] = 0 fi;
            rec[i] = 0; rd[i] = 0; life[i] = 0; begun[i] = 0; i++
       :: i == S -> i = 0; break
       od };
     settle(0);
#if S > 1
     settle(1)
#endif
#endif
  od
}

/* ------------------------------------------------------------------ supervisor, killer, judge */
active proctype Supervisor()
{
  byte d;
  do
  :: atomic { kd[0] && !up[0] && dead[0] != live[0] -> d = 0 }; goto reap
  :: atomic { kd[1] && !up[1] && dead[1] != live[1] -> d = 1 };
reap:
     dead[d] = live[d];                                         /* seq_cst */
     deaths++;                                                  /* seq_cst */
     d_step { live[d]++; up[d] = 1; d = 0 }
  od
}

active proctype Killer()
{
  byte n = KD;
  do
  :: d_step { n > 0 && !kd[0] -> n--; kd[0] = 1 }
  :: d_step { n > 0 && !kd[1] -> n--; kd[1] = 1 }
  :: d_step { n = 0 } -> break
  od
}

active proctype Judge()                                         /* runs when nothing else can */
{
  byte k;
#if ENDLESS
  timeout -> expire = 1; tick = 1;
  timeout -> expire = 0; tick = 1;
#endif
  timeout ->
  for (k : 0 .. S-1) { assert(ST(sw[k]) == FREE) };
  for (k : 1 .. R) {
    assert((verdict[k] == OK && got[k] == N)
       || (verdict[k] == STOPPED && NC + ENDLESS > 0)
       || (verdict[k] == GONE && KF > 0)
       || (verdict[k] == INTERNAL && KD > 0 && got[k] > 0))
  }
}

init { atomic { nxt = 1; live[0] = 1; live[1] = 1; run Front(); run Disp(0); run Disp(1) } }
